// What the processes of a soak tell one another: a file of counters that all of them map, so that
// nothing is lost with a process that is killed.

#ifndef INVOKER_TESTS_SOAK_LEDGER_H_
#define INVOKER_TESTS_SOAK_LEDGER_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace invoker::soak {

// Names the ledger to the server's functions.
inline constexpr char kLedgerVariable[] = "INVOKER_SOAK_LEDGER";

inline constexpr uint32_t kMostCalls = 352;

// One call of a session, which the server's own processes execute.
struct CallMark {
  std::atomic<uint8_t> executed;  // how often, by the function
  std::atomic<uint8_t> answered;  // after its right answer
};

// One client process.
struct ClientRecord {
  std::atomic<uint64_t> sent;      // before each call, whose number it was
  std::atomic<uint64_t> answered;  // after its right answer
  std::atomic<uint64_t> executed;  // by the function
  std::atomic<uint64_t> billed;    // calls, as the client of a lease was told that gave it back
  std::atomic<uint64_t> wrong;     // inputs and answers that were not what they should be
  CallMark calls[kMostCalls];
};

inline constexpr size_t kMostClients = 1 << 18;

// Shared memory of the file's; lives until the process ends. nullptr if it cannot be had.
inline ClientRecord* MapLedger(const std::string& path, bool create) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
  if (fd < 0) return nullptr;
  constexpr size_t kBytes = kMostClients * sizeof(ClientRecord);
  void* memory = MAP_FAILED;
  if (!create || ftruncate(fd, kBytes) == 0) {
    memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<ClientRecord*>(memory);
}

// What an input begins with. The rest of it, and the answer, are bytes that follow from the seed.
struct Work {
  uint32_t client;
  uint32_t call;
  uint64_t seed;
  uint64_t input_bytes;  // with this
  uint64_t output_bytes;
};

// The byte at `at` of what follows from the seed.
class Fill {
 public:
  explicit Fill(uint64_t seed) : state_(seed) {}

  uint8_t Next() {
    if (left_ == 0) {
      state_ += 0x9E3779B97F4A7C15u;
      uint64_t z = state_;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      bytes_ = z ^ (z >> 27);
      left_ = sizeof(bytes_);
    }
    const uint8_t byte = static_cast<uint8_t>(bytes_);
    bytes_ >>= 8;
    --left_;
    return byte;
  }

  // Whether `size` bytes are the next ones.
  bool Check(const uint8_t* bytes, size_t size) {
    bool same = true;
    for (size_t i = 0; i < size; ++i) same &= bytes[i] == Next();
    return same;
  }
  void Write(uint8_t* bytes, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes[i] = Next();
  }

 private:
  uint64_t state_;
  uint64_t bytes_ = 0;
  unsigned left_ = 0;
};

}  // namespace invoker::soak

#endif  // INVOKER_TESTS_SOAK_LEDGER_H_
