// Memory that a program lent to a worker, and took back while the worker was writing to it: from
// then on nothing is written there, whatever the worker does later.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "src/invoke/registered_window.h"
#include "tests/integration/fabric_test.h"

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
    ServerOptions options;
    options.provider = "tcp;ofi_rxm";
    options.more = {"--bulk_memory=1G"};
    server_ = StartServer(options);
    ASSERT_NE(server_, nullptr);
    input_.assign(kBytes, std::byte{kPayload});
    output_.assign(kBytes, std::byte{kUntouched});
  }

  std::unique_ptr<Client> Connect() {
    ClientOptions options;
    options.provider = "tcp;ofi_rxm";
    options.hot_timeout = kClientHotTimeout;
    auto client = Client::Connect(server_->address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  // Returns once the worker has begun to write to output_.
  BulkFuture StartEcho(Client* client, const RegisteredWindow& from, const RegisteredWindow& to) {
    BulkFuture future = client->InvokeBulkAsync(FunctionNamed(*client, "test.echo"),
                                                {&from, 0, kBytes, {}}, {&to, 0, kBytes});
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
      BulkFuture future = StartEcho(client.get(), *from, *to);
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

// A worker that lives lets it go at once: nothing is kept that would have to be looked after.
TEST_F(LentMemoryTest, ClosingInTheMiddleLeavesNoEndpointBehind) {
  const auto round = [this] {
    const std::unique_ptr<Client> client = Connect();
    ASSERT_NE(client, nullptr);
    output_.assign(kBytes, std::byte{kUntouched});
    absl::StatusOr<RegisteredWindow> from =
        client->RegisterWindow(input_.data(), kBytes, WindowAccess::kRead);
    absl::StatusOr<RegisteredWindow> to =
        client->RegisterWindow(output_.data(), kBytes, WindowAccess::kWrite);
    ASSERT_TRUE(from.ok() && to.ok());
    BulkFuture future = StartEcho(client.get(), *from, *to);
    client->Close();
    const absl::Status status = future.Get().status();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  };
  round();
  const int64_t before = OpenDescriptors();
  for (int i = 0; i < 5; ++i) round();
  EXPECT_LE(OpenDescriptors(), before);
}

}  // namespace
}  // namespace invoker
