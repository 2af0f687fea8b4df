// A gigabyte through a session with windows of a megabyte: it arrives, and costs no more memory
// than the payload itself on either side.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "invoker/registered_window.h"
#include "src/transport/fabric/memory_region.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/rendezvous.h"
#include "tests/invoke/with_output.h"

namespace invoker {
namespace {

constexpr uint64_t kMiB = 1 << 20;
// Beyond the payloads: what a process needs for its first calls, and large pages that are not full.
constexpr uint64_t kSmall = 64 * kMiB;

// What the fabric's own buffers take from their first use on.
uint64_t FabricMemory() {
  const char* mebibytes = getenv("INVOKER_TEST_FABRIC_MIB");
  return mebibytes == nullptr ? 0 : std::strtoull(mebibytes, nullptr, 10) * kMiB;
}

// A line of /proc, "VmHWM:  1234 kB", in bytes.
uint64_t ProcBytes(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word != key) continue;
    uint64_t kib = 0;
    file >> kib;
    return kib << 10;
  }
  ADD_FAILURE() << path << " has no " << key;
  return 0;
}
uint64_t PeakOf(pid_t pid) { return ProcBytes(absl::StrCat("/proc/", pid, "/status"), "VmHWM:"); }
uint64_t ResidentOf(pid_t pid) {
  return ProcBytes(absl::StrCat("/proc/", pid, "/status"), "VmRSS:");
}

// What is resident once that is within `limit`, or in the end: a worker gives a call's memory back
// behind its answer.
uint64_t ResidentWithin(pid_t pid, uint64_t limit) {
  const absl::Time give_up = absl::Now() + kPatience;
  uint64_t resident = ResidentOf(pid);
  while (resident > limit && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(1));
    resident = ResidentOf(pid);
  }
  return resident;
}

uint64_t PayloadBytes() {
  const uint64_t available = ProcBytes("/proc/meminfo", "MemAvailable:");
  return available > 8192 * kMiB ? 1024 * kMiB : 128 * kMiB;
}

// Anonymous memory that other tests' allocations have nothing to do with.
class Memory {
 public:
  explicit Memory(uint64_t bytes) : buffer_(*transport::HostBuffer::Allocate(bytes)) {}

  std::byte* data() const { return buffer_.data(); }
  uint64_t size() const { return buffer_.size(); }
  void Fill(uint64_t seed) {
    for (uint64_t i = 0; i < words(); ++i) At(i) = Word(i, seed);
  }
  // The first word that is not what Fill writes; words() if there is none.
  uint64_t FirstDifference(uint64_t seed) const {
    uint64_t i = 0;
    while (i < words() && At(i) == Word(i, seed)) ++i;
    return i;
  }
  uint64_t words() const { return buffer_.size() / sizeof(uint64_t); }

 private:
  static uint64_t Word(uint64_t i, uint64_t seed) { return (i + seed) * 0x9e3779b97f4a7c15u; }
  uint64_t& At(uint64_t i) const { return reinterpret_cast<uint64_t*>(buffer_.data())[i]; }

  transport::HostBuffer buffer_;
};

class LargePayloadTest : public FabricTest {
 protected:
  ServerProcess* StartSmallServer() {
    ServerProcessOptions options;
    // The largest goes both ways, 1 GiB each.
    options.more = {"--bulk-memory=4G"};
    options.window = "1048576";
    return StartServer(options);
  }
};

TEST_P(LargePayloadTest, AGigabyteCostsNoMoreMemoryThanItIs) {
  ServerProcess* server = StartSmallServer();
  ASSERT_NE(server, nullptr);
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  EXPECT_LT(client->max_payload(), kMiB);
  const uint64_t bytes = PayloadBytes();
  Memory input(bytes);
  Memory output(bytes);
  input.Fill(1);
  output.Fill(2);
  const uint64_t here_before = PeakOf(getpid());
  const uint64_t there_before = ResidentOf(server->pid());
  {
    absl::StatusOr<RegisteredWindow> from =
        client->RegisterWindow(input.data(), bytes, WindowAccess::kRead);
    ASSERT_TRUE(from.ok()) << from.status();
    absl::StatusOr<RegisteredWindow> to =
        client->RegisterWindow(output.data(), bytes, WindowAccess::kWrite);
    ASSERT_TRUE(to.ok()) << to.status();
    absl::StatusOr<Response> result = client->Invoke(
        FunctionNamed(*client, "test.echo"), {*from, 0, bytes}, WithOutput({*to, 0, bytes}));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->size(), bytes);
  }
  const uint64_t here = PeakOf(getpid()) - here_before;
  const uint64_t there = PeakOf(server->pid()) - there_before;
  const uint64_t left = ResidentWithin(server->pid(), there_before + kSmall);
  std::cout << bytes / kMiB << " MiB in and out; beyond what was there before: client "
            << here / kMiB << " MiB at most, worker " << there / kMiB << " MiB at most, and "
            << (left > there_before ? (left - there_before) / kMiB : 0) << " MiB afterwards"
            << std::endl;
  EXPECT_LE(here, kSmall);
  EXPECT_LE(there, 2 * bytes + kSmall);
  EXPECT_LE(left, there_before + kSmall);
  EXPECT_EQ(input.FirstDifference(1), input.words());
  EXPECT_EQ(output.FirstDifference(1), output.words());
}

TEST_P(LargePayloadTest, ClosingTheClientInTheMiddleGivesTheMemoryBack) {
  ServerProcess* server = StartSmallServer();
  ASSERT_NE(server, nullptr);
  constexpr uint64_t kBytes = 64 * kMiB;
  Memory memory(2 * kBytes);
  memory.Fill(1);
  const uint64_t before = ResidentOf(server->pid());
  for (int round = 0; round < 6; ++round) {
    const std::unique_ptr<Client> client = Connect(server);
    ASSERT_NE(client, nullptr);
    absl::StatusOr<RegisteredWindow> window =
        client->RegisterWindow(memory.data(), memory.size(), WindowAccess::kReadWrite);
    ASSERT_TRUE(window.ok()) << window.status();
    Future future = client->InvokeAsync(FunctionNamed(*client, "test.echo"), {*window, 0, kBytes},
                                        WithOutput({*window, kBytes, kBytes}));
    future.Wait(absl::Milliseconds(5 * round));
    client->Close();
    const absl::Status status = future.Get().status();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  std::vector<std::byte> output(kBytes);
  absl::StatusOr<Response> response =
      client->Invoke(FunctionNamed(*client, "test.echo"), {memory.data(), kBytes},
                     WithOutput(absl::MakeSpan(output)));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(memcmp(output.data(), memory.data(), kBytes), 0);
  // A sanitizer keeps what has been freed.
  if (getenv("INVOKER_SANITIZER") != nullptr) return;
  const uint64_t limit = before + kSmall + FabricMemory();
  EXPECT_LE(ResidentWithin(server->pid(), limit), limit);
}

// The call's deadline is the memory's end too, and costs nothing else.
TEST_P(LargePayloadTest, AFunctionThatRunsOnLetsGoOfTheMemory) {
  Rendezvous rendezvous;
  ServerProcess* server = StartSmallServer();
  ASSERT_NE(server, nullptr);
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  constexpr uint64_t kBytes = 8 * kMiB;
  Memory output(kBytes);
  output.Fill(1);
  const std::string& path = rendezvous.path();
  CallOptions options;
  const absl::Status status = rendezvous.RunBeyondDeadline([&](absl::Duration timeout) {
    options.timeout = timeout;
    return client
        ->Invoke(FunctionNamed(*client, "test.rendezvous"),
                 {reinterpret_cast<const std::byte*>(path.data()), path.size()},
                 WithOutput({output.data(), kBytes}, options))
        .status();
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  // It has not been waited for, and its answer finds nothing to go to.
  rendezvous.Release();
  EXPECT_TRUE(client->Invoke(FunctionNamed(*client, "test.echo"), "behind it").ok());
  EXPECT_EQ(client->status(), absl::OkStatus());
  EXPECT_EQ(output.FirstDifference(1), output.words());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, LargePayloadTest, BothProviders(), FabricName);

}  // namespace
}  // namespace invoker
