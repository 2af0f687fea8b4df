// Emulated endpoints in processes of their own: the same seed gives the same decisions, two
// processes reach each other by address alone, and nothing of them is left in /dev/shm.

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/contract_providers/raw_endpoint.h"

namespace contract {
namespace {

// A child that runs `body` with two ends of pipes to the parent; its exit status is whether the
// body returned true. The parent itself never uses libfabric, so every child starts alike.
class Child {
 public:
  explicit Child(const std::function<bool(int in, int out)>& body) {
    int to_child[2];
    int from_child[2];
    EXPECT_EQ(pipe(to_child), 0);
    EXPECT_EQ(pipe(from_child), 0);
    fflush(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      close(to_child[1]);
      close(from_child[0]);
      bool done = body(to_child[0], from_child[1]);
      done = done && !testing::Test::HasFailure();
      // Ends as programs do, so that libfabric cleans up.
      exit(done ? 0 : 1);
    }
    close(to_child[0]);
    close(from_child[1]);
    in_ = from_child[0];
    out_ = to_child[1];
  }
  ~Child() {
    close(in_);
    close(out_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  int in() const { return in_; }
  int out() const { return out_; }
  void Signal(int number) { kill(pid_, number); }
  // Returns what waitpid tells.
  int Wait() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

bool WriteAll(int fd, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = write(fd, from, bytes);
    if (count <= 0) return false;
    from += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool ReadAll(int fd, void* data, size_t bytes) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = read(fd, to, bytes);
    if (count <= 0) return false;
    to += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

// What a peer must know to write into an endpoint's memory.
struct Contact {
  char name[48] = "";
  uint64_t address = 0;
  uint64_t key = 0;

  explicit Contact(const RawEndpoint& endpoint) : address(endpoint.remote(0)), key(endpoint.key()) {
    const std::string raw = endpoint.Name();
    memcpy(name, raw.data(), raw.size());
  }
  Contact() = default;
  std::string Name() const { return std::string(name, sizeof(name)) + std::string(64, '\0'); }

  // How the name of the inner endpoint's file in /dev/shm ends: address.cc, EndOfName.
  std::string EndOfFile(const Emulated& fabric) const {
    uint32_t number = 0;
    uint32_t nonce = 0;
    if (fabric.provider == std::string("efa")) {
      uint16_t qpn;
      memcpy(&qpn, name + 16, sizeof(qpn));
      number = qpn;
      memcpy(&nonce, name + 20, sizeof(nonce));
    } else {
      memcpy(&nonce, name + 4, sizeof(nonce));
      memcpy(&number, name + 8, sizeof(number));
      number >>= 8;
    }
    char end[64];
    std::snprintf(end, sizeof(end), ".%s-%x-%x", fabric.provider, number, nonce);
    return end;
  }
};

bool HasFile(const Contact& contact) {
  const std::string end = contact.EndOfFile(testing::TestWithParam<Emulated>::GetParam());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0) {
      return true;
    }
  }
  return false;
}

class Processes : public testing::TestWithParam<Emulated> {
 protected:
  // The decisions of a run of 600 writes and sends in a process of its own.
  std::vector<Decision> Run(const char* seed) {
    Child child([seed](int, int out) {
      setenv("CONTRACT_SEED", seed, 1);
      RawEndpoint a(GetParam());
      RawEndpoint b(GetParam());
      const fi_addr_t to_b = a.Insert(b.Name());
      b.Insert(a.Name());
      for (int i = 0; i < 300; ++i) {
        EXPECT_EQ(Insist({&a, &b},
                         [&] {
                           return fi_write(a.endpoint.get(), a.memory.data(), 100, a.descriptor(),
                                           to_b, b.remote(0), b.key(), nullptr);
                         }),
                  0);
        EXPECT_EQ(Insist({&a, &b},
                         [&] {
                           return fi_send(a.endpoint.get(), a.memory.data(), 8, a.descriptor(),
                                          to_b, nullptr);
                         }),
                  0);
      }
      const std::vector<Decision> decisions = a.Decisions();
      const uint64_t count = decisions.size();
      return WriteAll(out, &count, sizeof(count)) &&
             WriteAll(out, decisions.data(), count * sizeof(Decision));
    });
    uint64_t count = 0;
    EXPECT_TRUE(ReadAll(child.in(), &count, sizeof(count)));
    std::vector<Decision> decisions(count);
    EXPECT_TRUE(ReadAll(child.in(), decisions.data(), count * sizeof(Decision)));
    EXPECT_EQ(child.Wait(), 0);
    return decisions;
  }
};

TEST_P(Processes, SameSeedAndCallsGiveTheSameDecisions) {
  const std::vector<Decision> first = Run("1234");
  EXPECT_GE(first.size(), 600u);
  EXPECT_EQ(first, Run("1234"));
  EXPECT_NE(first, Run("1235"));
}

TEST_P(Processes, PeersReachEachOtherByAddressAloneAndLeaveNothingBehind) {
  constexpr uint64_t kWrites = 500;
  Child target([](int in, int out) {
    RawEndpoint::Options options;
    if (GetParam().provider == std::string("gni")) options.caps |= FI_RMA_EVENT;
    RawEndpoint endpoint(GetParam(), options);
    const Contact contact(endpoint);
    bool right = WriteAll(out, &contact, sizeof(contact));
    endpoint.on_entry = [&](const fi_cq_data_entry& entry) {
      uint64_t value;
      memcpy(&value, endpoint.memory.data() + entry.data * 8, sizeof(value));
      right = right && value == entry.data + 1;
    };
    // The last ones are acknowledged by polls of this side, so it goes on until it is told.
    pollfd told = {in, POLLIN, 0};
    const bool ended = PollUntil({&endpoint}, [&] { return poll(&told, 1, 0) == 1; });
    return right && ended && endpoint.entries.size() == kWrites;
  });
  Contact contact;
  ASSERT_TRUE(ReadAll(target.in(), &contact, sizeof(contact)));
  EXPECT_TRUE(HasFile(contact));
  Child initiator([&contact](int, int out) {
    RawEndpoint::Options options;
    if (GetParam().provider == std::string("gni")) options.caps |= FI_RMA_EVENT;
    RawEndpoint endpoint(GetParam(), options);
    const Contact own(endpoint);
    EXPECT_TRUE(WriteAll(out, &own, sizeof(own)));
    const fi_addr_t peer = endpoint.Insert(contact.Name());
    for (uint64_t i = 0; i < kWrites; ++i) {
      const uint64_t value = i + 1;
      memcpy(endpoint.memory.data() + i * 8, &value, sizeof(value));
      EXPECT_EQ(Insist({&endpoint},
                       [&] {
                         return fi_writedata(endpoint.endpoint.get(),
                                             endpoint.memory.data() + i * 8, 8,
                                             endpoint.descriptor(), i, peer,
                                             contact.address + i * 8, contact.key, nullptr);
                       }),
                0);
    }
    return PollUntil({&endpoint}, [&] { return endpoint.entries.size() == kWrites; });
  });
  Contact other;
  ASSERT_TRUE(ReadAll(initiator.in(), &other, sizeof(other)));
  EXPECT_EQ(initiator.Wait(), 0);
  EXPECT_TRUE(WriteAll(target.out(), "", 1));
  EXPECT_EQ(target.Wait(), 0);
  EXPECT_FALSE(HasFile(contact));
  EXPECT_FALSE(HasFile(other));
}

TEST_P(Processes, TerminatedProcessLeavesNothingBehind) {
  Child child([](int in, int out) {
    // The parent of this test may have it ignored.
    signal(SIGTERM, SIG_DFL);
    RawEndpoint endpoint(GetParam());
    const Contact contact(endpoint);
    WriteAll(out, &contact, sizeof(contact));
    char never;
    return ReadAll(in, &never, 1);
  });
  Contact contact;
  ASSERT_TRUE(ReadAll(child.in(), &contact, sizeof(contact)));
  ASSERT_TRUE(HasFile(contact));
  child.Signal(SIGTERM);
  const int status = child.Wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_FALSE(HasFile(contact));
}

TEST_P(Processes, TheNextProcessRemovesWhatAKilledOneHasLeft) {
  const auto open_one = [](int in, int out) {
    RawEndpoint endpoint(GetParam());
    const Contact contact(endpoint);
    WriteAll(out, &contact, sizeof(contact));
    char end;
    return ReadAll(in, &end, 1);
  };
  Child killed(open_one);
  Contact contact;
  ASSERT_TRUE(ReadAll(killed.in(), &contact, sizeof(contact)));
  ASSERT_TRUE(HasFile(contact));
  killed.Signal(SIGKILL);
  killed.Wait();
  Child next(open_one);
  Contact other;
  ASSERT_TRUE(ReadAll(next.in(), &other, sizeof(other)));
  EXPECT_FALSE(HasFile(contact));
  EXPECT_TRUE(HasFile(other));
  EXPECT_TRUE(WriteAll(next.out(), "", 1));
  EXPECT_EQ(next.Wait(), 0);
  EXPECT_FALSE(HasFile(other));
}

INSTANTIATE_TEST_SUITE_P(Emulated, Processes, testing::Values(kEfaFirst, kEfaSecond, kGni),
                         NameOfFabric);

}  // namespace
}  // namespace contract
