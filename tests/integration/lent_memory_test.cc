// Memory that a program lent to a worker, and took back while the worker was writing to it: from
// then on nothing is written there, whatever the worker does later.

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "invoker/registered_window.h"
#include "tests/integration/fabric_test.h"
#include "tests/invoke/with_output.h"

namespace invoker {
namespace {

// Much more than a connection holds.
constexpr uint64_t kBytes = uint64_t{256} << 20;
constexpr uint8_t kUntouched = 0;
constexpr uint8_t kPayload = 0x5A;
constexpr uint8_t kAnothers = 0xC3;

int64_t OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

class LentMemoryTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerProcessOptions options;
    options.provider = "tcp;ofi_rxm";
    options.more = {"--bulk-memory=1G"};
    server_ = StartServer(options);
    ASSERT_NE(server_, nullptr);
    input_.assign(kBytes, std::byte{kPayload});
    output_.assign(kBytes, std::byte{kUntouched});
  }

  std::unique_ptr<Client> Connect() {
    ClientOptions options;
    options.provider = "tcp;ofi_rxm";
    options.hot_timeout = kClientHotTimeout;
    options.peer_timeout = absl::Seconds(5);
    auto client = Client::Connect(server_->address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  // Returns once the worker has begun to write to output_.
  Future StartEcho(Client* client, const RegisteredWindow& from, const RegisteredWindow& to) {
    Future future = client->InvokeAsync(FunctionNamed(*client, "test.echo"), {from, 0, kBytes},
                                        WithOutput({to, 0, kBytes}));
    const auto* first = reinterpret_cast<const std::atomic<uint8_t>*>(output_.data());
    while (first->load(std::memory_order_relaxed) == kUntouched) {
      if (future.Wait(absl::ZeroDuration())) break;
    }
    return future;
  }

  size_t BytesThatAreNot(uint8_t value) const {
    return output_.size() -
           static_cast<size_t>(std::count(output_.begin(), output_.end(), std::byte{value}));
  }

  ServerProcess* server_ = nullptr;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

TEST_F(LentMemoryTest, AWorkerThatWasStoppedInTheMiddleWritesThereNoMore) {
  constexpr int kAttempts = 50;
  bool in_the_middle = false;
  // On a busy machine the worker may be through with it before it is stopped.
  for (int i = 0; i < kAttempts && !in_the_middle; ++i) {
    std::unique_ptr<Client> client = Connect();
    ASSERT_NE(client, nullptr);
    output_.assign(kBytes, std::byte{kUntouched});
    {
      absl::StatusOr<RegisteredWindow> from =
          client->RegisterWindow(input_.data(), kBytes, WindowAccess::kRead);
      ASSERT_TRUE(from.ok()) << from.status();
      absl::StatusOr<RegisteredWindow> to =
          client->RegisterWindow(output_.data(), kBytes, WindowAccess::kWrite);
      ASSERT_TRUE(to.ok()) << to.status();
      Future future = StartEcho(client.get(), *from, *to);
      server_->Suspend();
      const absl::Status status = future.Get().status();
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
      in_the_middle = BytesThatAreNot(kPayload) > 0;
      if (!in_the_middle) server_->Resume();
    }
    output_.assign(kBytes, std::byte{kAnothers});
    client->Close();
  }
  EXPECT_TRUE(in_the_middle);
  server_->Resume();
  // Each looks after what the first one has left.
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<Client> next = Connect();
    ASSERT_NE(next, nullptr);
    EXPECT_TRUE(next->Invoke(FunctionNamed(*next, "test.echo"), "next").ok());
  }
  EXPECT_EQ(BytesThatAreNot(kAnothers), 0u);
}

// Mapped by itself, so that nobody finds it when it has been given back.
class Mapped {
 public:
  explicit Mapped(std::byte value)
      : memory_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
    memset(memory_, static_cast<int>(value), kBytes);
  }
  ~Mapped() { EXPECT_EQ(munmap(memory_, kBytes), 0); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  void* data() const { return memory_; }

 private:
  void* memory_;
};

// A call has two windows, of which the worker is using one when it is cancelled. Whichever is taken
// back first, the other one's memory is the worker's until that is.
TEST_F(LentMemoryTest, EachWindowOfACancelledCallIsTakenBackByItself) {
  const std::unique_ptr<Client> client = Connect();
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  // The worker may be between two transfers.
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& [while_writing, input_first] :
         {std::pair(true, true), std::pair(true, false), std::pair(false, true),
          std::pair(false, false)}) {
      SCOPED_TRACE(testing::Message()
                   << "while writing: " << while_writing << ", input first: " << input_first);
      output_.assign(kBytes, std::byte{kUntouched});
      auto input = std::make_unique<Mapped>(std::byte{kPayload});
      std::optional<RegisteredWindow> from;
      std::optional<RegisteredWindow> to;
      {
        auto window = client->RegisterWindow(input->data(), kBytes, WindowAccess::kRead);
        ASSERT_TRUE(window.ok()) << window.status();
        from.emplace(*std::move(window));
        window = client->RegisterWindow(output_.data(), kBytes, WindowAccess::kWrite);
        ASSERT_TRUE(window.ok()) << window.status();
        to.emplace(*std::move(window));
      }
      Future future = while_writing ? StartEcho(client.get(), *from, *to)
                                    : client->InvokeAsync(echo, {*from, 0, kBytes},
                                                          WithOutput({*to, 0, kBytes}));
      // Some of the input has been read then.
      if (!while_writing) future.Wait(absl::Milliseconds(10));
      future.Cancel();
      if (input_first) {
        from.reset();
        input.reset();
        to.reset();
      } else {
        to.reset();
        from.reset();
        input.reset();
      }
      output_.assign(kBytes, std::byte{kAnothers});
      // Takes what is still under way.
      for (int i = 0; i < 20; ++i) {
        const absl::Status status = client->Invoke(echo, "next").status();
        ASSERT_TRUE(status.ok()) << status;
      }
      EXPECT_EQ(BytesThatAreNot(kAnothers), 0u);
    }
  }
}

// A worker that lives lets it go at once: nothing is kept that would have to be looked after.
TEST_F(LentMemoryTest, ClosingInTheMiddleLeavesNoEndpointBehind) {
  // Whether the worker's writes were over so soon that the client could wait for them.
  const auto round = [this](bool* quick) {
    const std::unique_ptr<Client> client = Connect();
    ASSERT_NE(client, nullptr);
    output_.assign(kBytes, std::byte{kUntouched});
    absl::StatusOr<RegisteredWindow> from =
        client->RegisterWindow(input_.data(), kBytes, WindowAccess::kRead);
    absl::StatusOr<RegisteredWindow> to =
        client->RegisterWindow(output_.data(), kBytes, WindowAccess::kWrite);
    ASSERT_TRUE(from.ok() && to.ok());
    Future future = StartEcho(client.get(), *from, *to);
    const absl::Time begin = absl::Now();
    client->Close();
    const absl::Status status = future.Get().status();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    from = absl::CancelledError();
    to = absl::CancelledError();
    *quick = absl::Now() - begin < absl::Milliseconds(100);
  };
  bool quick;
  round(&quick);
  int64_t before = OpenDescriptors();
  int quick_rounds = 0;
  for (int i = 0; i < 50 && quick_rounds < 5; ++i) {
    round(&quick);
    if (quick) {
      ++quick_rounds;
    } else {
      before = std::max(before, OpenDescriptors());
      quick_rounds = 0;
    }
  }
  EXPECT_EQ(quick_rounds, 5);
  // gRPC closes a connection when it comes to it.
  const absl::Time limit = absl::Now() + kPatience;
  while (OpenDescriptors() > before && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_LE(OpenDescriptors(), before);
}

}  // namespace
}  // namespace invoker
