// A session with hundreds of calls waiting holds up the single call of another one for some quanta
// at most (kQuantumCalls in src/invoke/executor/session/executor_session.h). Counted in functions
// that have run, as the function itself counts them, so that it holds on a machine of any speed.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/invoke/executor/session/executor_session.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/rendezvous.h"

namespace invoker {
namespace {

// The queue is read before each turn, and what a fabric brings only at the next reading waits for
// another turn.
constexpr uint64_t kMostBefore = 16 * kQuantumCalls;

// Even if each comes by itself, a queue of shm holds them and the single call: it has 1024 places
// for all peers together, and a sender that finds it full has not come yet.
constexpr uint64_t kFlood = 900;

CallOptions Small() {
  CallOptions options;
  options.response_capacity = 16;
  return options;
}

class FairnessTest : public FabricTest {
 protected:
  std::unique_ptr<Client> ConnectFor(const ServerProcess* server) {
    ClientOptions options;
    options.window_bytes = 1 << 20;
    std::unique_ptr<Client> client = Connect(server, options);
    // The fabric is connected.
    if (client != nullptr) {
      EXPECT_TRUE(client->Invoke(FunctionNamed(*client, "test.echo"), "x", Small()).ok());
    }
    return client;
  }

  // The least of some rounds: on a loaded machine the thread that posts the single call may get no
  // processor before many of the others have run. Where the others go first, they do in every
  // round.
  uint64_t LeastBeforeTheSingleCall(bool joined) {
    constexpr int kRounds = 5;
    uint64_t least = UINT64_MAX;
    for (int round = 0; round < kRounds && least > kMostBefore && !HasFailure(); ++round) {
      least = std::min(least, RanBeforeTheSingleCall(kFlood, joined));
    }
    return least;
  }

 private:
  // While the executor is held, one session starts so many calls, each with a doorbell of its own
  // or as many together as join, and then another one starts a single one. How many of the first
  // one's ran before it.
  uint64_t RanBeforeTheSingleCall(uint64_t flood_calls, bool joined) {
    Rendezvous rendezvous;
    ServerProcess* server = StartServer();
    const std::unique_ptr<Client> holding = ConnectFor(server);
    const std::unique_ptr<Client> flooding = ConnectFor(server);
    const std::unique_ptr<Client> modest = ConnectFor(server);
    if (holding == nullptr || flooding == nullptr || modest == nullptr) return UINT64_MAX;
    const RemoteFunction order = FunctionNamed(*modest, "test.order");
    Future held =
        holding->InvokeAsync(FunctionNamed(*holding, "test.rendezvous"), rendezvous.path());
    EXPECT_TRUE(rendezvous.WaitUntilRunning());
    std::vector<Future> flood;
    for (uint64_t i = 0; i < flood_calls; ++i) {
      flood.push_back(flooding->InvokeAsync(order, "", Small()));
      // A turn of the client posts what has been started.
      if (!joined) {
        EXPECT_FALSE(flood.back().Wait(absl::ZeroDuration()));
      }
    }
    Future single = modest->InvokeAsync(order, "", Small());
    EXPECT_FALSE(single.Wait(absl::ZeroDuration()));
    rendezvous.Release();
    const uint64_t before = Number(single.Get());
    uint64_t sum = before;
    for (Future& future : flood) sum += Number(future.Get());
    // Each ran once.
    EXPECT_EQ(sum, (flood_calls + 1) * flood_calls / 2);
    EXPECT_TRUE(held.Get().ok());
    return before;
  }

  static uint64_t Number(const absl::StatusOr<Response>& response) {
    uint64_t number = 0;
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok()) return 0;
    EXPECT_EQ(response->size(), sizeof(number));
    memcpy(&number, response->data().data(), std::min(response->size(), sizeof(number)));
    return number;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, FairnessTest,
                         testing::Values(WithImmediates("tcp;ofi_rxm"),
                                         FabricUnderTest{"tcp;ofi_rxm", "send_after_write"},
                                         FabricUnderTest{"shm", "write_imm"},
                                         FabricUnderTest{"shm", "send_after_write"}),
                         FabricName);

TEST_P(FairnessTest, ASingleCallPassesManyThatCameTogether) {
  EXPECT_LE(LeastBeforeTheSingleCall(/*joined=*/true), kMostBefore);
}

TEST_P(FairnessTest, ASingleCallPassesManyThatCameOneByOne) {
  EXPECT_LE(LeastBeforeTheSingleCall(/*joined=*/false), kMostBefore);
}

}  // namespace
}  // namespace invoker
