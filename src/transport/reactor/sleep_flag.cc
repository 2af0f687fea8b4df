#include "src/transport/reactor/sleep_flag.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "src/transport/base/shared_files.h"

namespace invoker::transport {
namespace {

constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;

std::string WordOf(absl::string_view path) { return absl::StrCat(path, kSleepWordSuffix); }
std::string FifoOf(absl::string_view path) { return absl::StrCat(path, kWakeFifoSuffix); }

SleepWord* Map(int fd) {
  void* const memory = mmap(nullptr, sizeof(SleepWord), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<SleepWord*>(memory);
}

// For reading as well, also by peers: so a write does not raise SIGPIPE when the driver has gone.
int OpenFifo(const std::string& path) {
  return open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
}

}  // namespace

std::unique_ptr<SleepFlag> SleepFlag::Open(absl::string_view address) {
  const std::string path = SharedFilePath(address);
  if (path.empty()) return nullptr;
  const std::string fifo = FifoOf(path);
  if (mkfifo(fifo.c_str(), kOwnerOnly) != 0) return nullptr;
  // A process may end beside an endpoint that is never closed.
  [[maybe_unused]] static const int registered = atexit(RemoveOwnFiles);
  std::unique_ptr<SleepFlag> flag(new SleepFlag(address));
  flag->fifo_ = OpenFifo(fifo);
  const int fd = open(WordOf(path).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly);
  if (fd < 0) return nullptr;
  // Space is there before it is used: a full /dev/shm would end the process later.
  const bool has_space = posix_fallocate(fd, 0, sizeof(SleepWord)) == 0;
  if (has_space) flag->word_ = Map(fd);
  close(fd);
  if (flag->word_ == nullptr || flag->fifo_ < 0) return nullptr;
  new (flag->word_) SleepWord;
  return flag;
}

SleepFlag::~SleepFlag() {
  if (word_ != nullptr) munmap(word_, sizeof(SleepWord));
  if (fifo_ >= 0) close(fifo_);
  RemoveFilesBeside(address_);
}

void SleepFlag::Raise(int64_t now_ns) {
  if (raised_) return;
  raised_ = true;
  raised_at_ns_ = now_ns;
  word_->asleep.store(1, std::memory_order_seq_cst);
}

bool SleepFlag::AfterSleep(int64_t now_ns) {
  // Whatever the word says: a byte may come later than a sleep that ended by itself, and one that
  // stays would end every sleep.
  char bytes[64];
  while (read(fifo_, bytes, sizeof(bytes)) > 0) {
  }
  const bool woken = raised_ && word_->asleep.load(std::memory_order_acquire) == 0;
  if (woken) raised_ = false;
  settled_ = raised_ && now_ns - raised_at_ns_ >= kSettleNs;
  return woken;
}

std::unique_ptr<PeerWaker> PeerWaker::Open(absl::string_view address) {
  const std::string path = SharedFilePath(address);
  if (path.empty()) return nullptr;
  const int fd = open(WordOf(path).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return nullptr;
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat word;
  struct stat wake;
  const int fifo = OpenFifo(FifoOf(path));
  if (fifo < 0) return nullptr;
  SleepWord* mapped = nullptr;
  if (fstat(fd, &word) == 0 && S_ISREG(word.st_mode) &&
      word.st_size >= static_cast<off_t>(sizeof(SleepWord)) && fstat(fifo, &wake) == 0 &&
      S_ISFIFO(wake.st_mode)) {
    mapped = Map(fd);
  }
  if (mapped == nullptr) {
    close(fifo);
    return nullptr;
  }
  mapped->wakers.fetch_add(1, std::memory_order_relaxed);
  return std::unique_ptr<PeerWaker>(new PeerWaker(mapped, fifo));
}

PeerWaker::PeerWaker(SleepWord* word, int fifo) : word_(word), fifo_(fifo), maker_(getpid()) {}

PeerWaker::~PeerWaker() {
  if (maker_ == getpid()) word_->wakers.fetch_sub(1, std::memory_order_relaxed);
  munmap(word_, sizeof(SleepWord));
  close(fifo_);
}

void PeerWaker::Wake() {
  if (word_->asleep.exchange(0, std::memory_order_acq_rel) == 0) return;
  const char byte = 0;
  // A full FIFO has woken it already.
  [[maybe_unused]] const ssize_t written = write(fifo_, &byte, sizeof(byte));
}

}  // namespace invoker::transport
