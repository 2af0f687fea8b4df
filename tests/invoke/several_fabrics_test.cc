// One worker on several fabrics: who comes over which, and that one thread serves them all.

#include <dirent.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/invoke/executor/executor.h"
#include "src/invoke/fabrics/fabric_finder.h"
#include "src/invoke/fabrics/served_fabrics.h"
#include "src/transport/base/shared_files.h"
#include "tests/invoke/served_client.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kTcp[] = "tcp;ofi_rxm";
constexpr char kShm[] = "shm";
constexpr char kBoth[] = "shm,tcp;ofi_rxm";

ClientOptions Over(const std::string& provider) {
  ClientOptions options;
  options.provider = provider;
  options.peer_timeout = absl::Seconds(5);
  return options;
}

std::vector<std::string> SharedMemoryOfThisProcess() {
  std::vector<std::string> names;
  DIR* directory = opendir("/dev/shm");
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) {
    if (absl::StartsWith(entry->d_name, transport::SharedFilePrefix(getpid())))
      names.push_back(entry->d_name);
  }
  closedir(directory);
  return names;
}

TEST(SeveralFabrics, AClientOnTheSameHostTakesTheBest) {
  ServedWorker served(kBoth);
  for (const char* automatic : {"", "auto"}) {
    std::unique_ptr<Client> client = served.Connect(Over(automatic));
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(client->provider(), kShm);
    EXPECT_EQ(client->fabric_choice(), "shm: same host; the worker also offers tcp;ofi_rxm");
    EXPECT_TRUE(client->Invoke(Find(*client, "echo"), "x").ok());
  }
}

TEST(SeveralFabrics, ANamedFabricIsTaken) {
  ServedWorker served(kBoth);
  for (const char* provider : {kTcp, kShm}) {
    std::unique_ptr<Client> client = served.Connect(Over(provider));
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(client->provider(), provider);
    EXPECT_EQ(client->fabric_choice(), absl::StrCat(provider, ": asked for by name"));
    EXPECT_TRUE(client->Invoke(Find(*client, "echo"), "x").ok());
  }
}

TEST(SeveralFabrics, AFabricThatIsNotOfferedIsRefusedWithThoseThatAre) {
  ServedWorker served(kBoth);
  const absl::Status status =
      Client::Connect(served.server->listen_address(), Over("sockets")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("sockets"), HasSubstr(kShm), HasSubstr(kTcp)));
}

// Calls over both at once, of clients that wait for nobody: one executor runs one function at a
// time all the same.
TEST(SeveralFabrics, FunctionsNeverRunTwoAtATime) {
  static std::atomic<int> running{0};
  static std::atomic<int> overlaps{0};
  FunctionRegistry registry;
  FunctionEntry entry;
  entry.name = "alone";
  entry.function = [](invoker_call*) -> int64_t {
    if (running.fetch_add(1) != 0) overlaps.fetch_add(1);
    for (volatile int i = 0; i < 1000; i = i + 1) {
    }
    running.fetch_sub(1);
    return 0;
  };
  ASSERT_TRUE(registry.Add(entry).ok());
  WorkerOptions options;
  options.providers = {kShm, kTcp};
  options.addresses.preferred_ip = "127.0.0.1";
  options.executor.hot_timeout = absl::Microseconds(100);
  auto worker = Worker::Start(options, std::move(registry));
  ASSERT_TRUE(worker.ok()) << worker.status();
  bootstrap::ServerOptions server_options;
  server_options.listen = "127.0.0.1:0";
  auto server = bootstrap::Server::Start(server_options, worker->get());
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::thread> threads;
  for (const char* provider : {kShm, kTcp, kShm, kTcp}) {
    threads.emplace_back([&, provider] {
      auto client = Client::Connect((*server)->listen_address(), Over(provider));
      ASSERT_TRUE(client.ok()) << client.status();
      const RemoteFunction alone = Find(**client, "alone");
      for (int i = 0; i < 200; ++i) {
        std::vector<Future> futures;
        for (int j = 0; j < 4; ++j) futures.push_back((*client)->InvokeAsync(alone, "x"));
        for (Future& future : futures) ASSERT_TRUE(future.Get().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*worker)->Counters().executed, 4u * 200 * 4);
  EXPECT_EQ(TotalDrops((*worker)->Counters().dropped), 0u);
  EXPECT_EQ(overlaps.load(), 0);
  (*server)->Stop();
}

TEST(SeveralFabrics, CallsOverBothInTurn) {
  ServedWorker served(kBoth);
  std::unique_ptr<Client> shm = served.Connect(Over(kShm));
  std::unique_ptr<Client> tcp = served.Connect(Over(kTcp));
  // Ids are the worker's, whatever the fabric.
  const RemoteFunction echo = Find(*shm, "echo");
  EXPECT_EQ(Find(*tcp, "echo").id(), echo.id());
  for (int i = 0; i < 300; ++i) {
    const std::string text = absl::StrCat("call ", i);
    for (Client* client : {shm.get(), tcp.get()}) {
      absl::StatusOr<Response> response = client->Invoke(echo, text);
      ASSERT_TRUE(response.ok()) << response.status();
      EXPECT_EQ(response->text(), text);
    }
  }
  EXPECT_EQ(served.worker->Counters().live_sessions, 2u);
  tcp.reset();
  EXPECT_TRUE(shm->Invoke(echo, "x").ok());
  while (served.worker->Counters().live_sessions != 1) std::this_thread::yield();
  // The fabric that had no session for a while takes the next.
  tcp = served.Connect(Over(kTcp));
  EXPECT_TRUE(tcp->Invoke(echo, "x").ok());
}

TEST(SeveralFabrics, AStopEndsTheSessionsOfBoth) {
  auto served = std::make_unique<ServedWorker>(kBoth);
  std::vector<std::unique_ptr<Client>> clients;
  for (const char* provider : {kShm, kTcp}) {
    clients.push_back(served->Connect(Over(provider)));
    EXPECT_TRUE(clients.back()->Invoke(Find(*clients.back(), "echo"), "x").ok());
  }
  served->worker->Drain();
  for (const std::unique_ptr<Client>& client : clients) {
    const absl::Status status = client->Invoke(Find(*client, "echo"), "x").status();
    EXPECT_EQ(GetCallFate(status), CallFate::kNotExecuted) << status;
  }
  served.reset();
  for (const std::unique_ptr<Client>& client : clients) {
    CallOptions options;
    options.timeout = absl::Seconds(30);
    EXPECT_FALSE(client->Invoke(Find(*client, "echo"), "x", options).ok());
  }
  clients.clear();
  EXPECT_THAT(SharedMemoryOfThisProcess(), testing::IsEmpty());
}

TEST(SeveralFabrics, ALeasesEndEndsItsSessionsOnBoth) {
  ServedWorker served(kBoth);
  std::unique_ptr<Client> stays = served.Connect(Over(kTcp));
  std::vector<std::unique_ptr<Client>> clients;
  for (const char* provider : {kShm, kTcp}) clients.push_back(served.Connect(Over(provider)));
  EXPECT_EQ(served.worker->Counters().live_sessions, 3u);
  clients.clear();
  while (served.worker->Counters().live_sessions != 1) std::this_thread::yield();
  EXPECT_TRUE(stays->Invoke(Find(*stays, "echo"), "x").ok());
}

// An executor by itself, with a client's half of a session on each of its fabrics.
class IdleFabricTest : public testing::Test {
 protected:
  IdleFabricTest() : registry_(MakeTestFunctions(&functions_)) {
    for (const char* provider : {kShm, kTcp}) {
      reactors_.push_back(OpenReactor(provider));
      ClientSession::Options options;
      options.window_bytes = 4096;
      sessions_.push_back(*ClientSession::Create(reactors_.back().get(), options));
    }
  }

  std::unique_ptr<Executor> Start(ExecutorOptions options) {
    std::vector<transport::FabricChoice> fabrics;
    for (const char* provider : {kShm, kTcp}) fabrics.push_back(*DiscoverLoopback(provider));
    return *Executor::Start(std::move(fabrics), &registry_, options,
                            [](Executor::SessionKey, const absl::Status&) {});
  }

  SessionKey Open(Executor* executor, uint16_t fabric) {
    auto reply = executor->OpenSession(
        fabric, sessions_[fabric]->MakeRequest(Notification::kWriteImm), Notification::kWriteImm);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return {reply->request_session, reply->epoch, fabric};
  }

  TestFunctions functions_;
  FunctionRegistry registry_;
  std::vector<std::unique_ptr<transport::Reactor>> reactors_;
  std::vector<std::unique_ptr<ClientSession>> sessions_;
};

TEST_F(IdleFabricTest, AnEndpointIsOpenedAtItsFirstSession) {
  std::unique_ptr<Executor> executor = Start({});
  for (const Executor::FabricUse& use : executor->Uses()) EXPECT_FALSE(use.open);
  Open(executor.get(), 1);
  std::vector<Executor::FabricUse> uses = executor->Uses();
  EXPECT_FALSE(uses[0].open);
  EXPECT_TRUE(uses[1].open);
  EXPECT_EQ(uses[1].live_sessions, 1u);
  Open(executor.get(), 0);
  uses = executor->Uses();
  EXPECT_TRUE(uses[0].open);
  EXPECT_EQ(uses[0].live_sessions, 1u);
  EXPECT_EQ(executor->live_sessions(), 2u);
}

// Busy-polling, the executor takes its turns on the one and none at all on the other.
TEST_F(IdleFabricTest, OnlyFabricsWithSessionsArePolled) {
  std::unique_ptr<Executor> executor = Start({});
  ASSERT_TRUE(executor->OpenFabric(0).ok());
  Open(executor.get(), 1);
  const std::vector<Executor::FabricUse> before = executor->Uses();
  std::vector<Executor::FabricUse> after = before;
  while (after[1].turns < before[1].turns + 10'000) after = executor->Uses();
  EXPECT_TRUE(after[0].open);
  EXPECT_EQ(after[0].turns, 0u);
}

// Else it would look once in a millisecond.
TEST_F(IdleFabricTest, AnExecutorWhoseClientsWakeItOnShmSeldomLooks) {
  ExecutorOptions options;
  options.hot_timeout = absl::ZeroDuration();
  std::unique_ptr<Executor> executor = Start(options);
  const auto reply = executor->OpenSession(0, sessions_[0]->MakeRequest(Notification::kWriteImm),
                                           Notification::kWriteImm);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_TRUE(sessions_[0]->Attach(*reply).ok());
  const uint64_t before = executor->Uses()[0].turns;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(executor->Uses()[0].turns - before, 200u);
}

// After its last session an endpoint is looked at on few turns, and at last on none.
TEST_F(IdleFabricTest, AFabricIsLeftAloneOnceItsLastSessionHasSettled) {
  std::unique_ptr<Executor> executor = Start({});
  const SessionKey ends = Open(executor.get(), 0);
  Open(executor.get(), 1);
  ASSERT_TRUE(executor->CloseSession(ends).ok());
  const std::vector<Executor::FabricUse> before = executor->Uses();
  std::vector<Executor::FabricUse> after = before;
  while (after[1].turns < before[1].turns + 64'000) after = executor->Uses();
  EXPECT_LE(after[0].turns, before[0].turns + (after[1].turns - before[1].turns) / 64 + 1);
  // Retired memory is what takes longest.
  uint64_t last = 0;
  do {
    last = after[0].turns;
    const uint64_t until = after[1].turns + 100'000;
    while (after[1].turns < until) after = executor->Uses();
  } while (after[0].turns != last);
  EXPECT_TRUE(after[0].open);
  // And is there again for the next.
  Open(executor.get(), 0);
  EXPECT_EQ(executor->Uses()[0].live_sessions, 1u);
}

// With no session at all, even an executor that is always hot has nothing to poll for.
TEST_F(IdleFabricTest, AnExecutorWithoutSessionsAnswersAndStops) {
  std::unique_ptr<Executor> executor = Start({});
  for (int i = 0; i < 3; ++i) {
    const SessionKey key = Open(executor.get(), i % 2);
    ASSERT_TRUE(executor->CloseSession(key).ok());
    EXPECT_TRUE(absl::IsNotFound(executor->CloseSession(key)));
    EXPECT_EQ(executor->Counters().live_sessions, 0u);
  }
  executor->Stop(absl::InfiniteDuration());
  EXPECT_TRUE(absl::IsNotFound(executor->CloseSession({0, 1, 1})));
}

// The names are each fabric's own; their epochs are not.
TEST_F(IdleFabricTest, SessionsOfDifferentFabricsHaveDifferentKeys) {
  std::unique_ptr<Executor> executor = Start({});
  const SessionKey first = Open(executor.get(), 0);
  const SessionKey second = Open(executor.get(), 1);
  EXPECT_EQ(first.number, second.number);
  EXPECT_NE(first.epoch, second.epoch);
  EXPECT_TRUE(absl::IsNotFound(executor->CloseSession({first.number, first.epoch, 1})));
  EXPECT_TRUE(executor->CloseSession(first).ok());
  EXPECT_TRUE(executor->CloseSession(second).ok());
}

const transport::SelfTestOptions kSelfTest = {"tools/invoker_self_test"};

FabricAddresses Given(const std::string& address) { return {address, ""}; }
FabricAddresses Preferred(const std::string& address) { return {"", address}; }

std::vector<std::string> ProvidersOf(const ServedFabrics& served) {
  std::vector<std::string> providers;
  for (const auto& fabric : served.fabrics) providers.push_back(fabric.profile.provider);
  return providers;
}

TEST(ServedFabricsTest, AutomaticOnesAreProvenAndInOrder) {
  for (const std::vector<std::string>& automatic :
       {std::vector<std::string>{}, std::vector<std::string>{"auto"}}) {
    const auto served = SelectServedFabrics(automatic, Preferred("127.0.0.1"), 1 << 20, kSelfTest);
    ASSERT_TRUE(served.ok()) << served.status();
    EXPECT_FALSE(served->by_name);
    const std::vector<std::string> providers = ProvidersOf(*served);
    EXPECT_EQ(providers.front(), kShm);
    EXPECT_THAT(providers, testing::Contains(StartsWith("tcp")));
    for (size_t i = 1; i < served->fabrics.size(); ++i) {
      EXPECT_LT(served->fabrics[i - 1].profile.auto_rank, served->fabrics[i].profile.auto_rank);
    }
    for (const auto& fabric : served->fabrics) {
      if (fabric.profile.address_is_ip) {
        EXPECT_EQ(transport::DescribeSource(*fabric.info), "127.0.0.1");
      }
    }
  }
}

TEST(ServedFabricsTest, NamedOnesComeInTheOrderGiven) {
  const auto served =
      SelectServedFabrics({"sockets", kShm}, Given("127.0.0.1"), 1 << 20, kSelfTest);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_TRUE(served->by_name);
  EXPECT_THAT(ProvidersOf(*served), ElementsAre("sockets", "shm"));
  EXPECT_EQ(transport::DescribeSource(*served->fabrics[0].info), "127.0.0.1");
}

TEST(ServedFabricsTest, AnInterfaceIsThatOfTheFabricsAddressedByIp) {
  const auto served = SelectServedFabrics({kShm, kTcp, "sockets"}, Given("lo"), 1 << 20, kSelfTest);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(transport::DescribeSource(*served->fabrics[1].info), "127.0.0.1");
  EXPECT_EQ(transport::DescribeSource(*served->fabrics[2].info), "127.0.0.1");
}

TEST(ServedFabricsTest, AnAddressOfNoFabricIsRefused) {
  for (const char* address : {"198.51.100.77", "nosuchif0"}) {
    for (const std::vector<std::string>& providers :
         {std::vector<std::string>{}, std::vector<std::string>{kShm, kTcp}}) {
      const absl::Status status =
          SelectServedFabrics(providers, Given(address), 1 << 20, kSelfTest).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(address));
    }
  }
}

TEST(ServedFabricsTest, ListsThatMakeNoSenseAreRefused) {
  for (const std::vector<std::string>& providers :
       {std::vector<std::string>{"auto", kShm}, {kShm, kShm}, {kShm, ""}}) {
    const absl::Status status = SelectServedFabrics(providers, {}, 1 << 20, kSelfTest).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
  const absl::Status status =
      SelectServedFabrics({kShm, "carrier-pigeon"}, {}, 1 << 20, kSelfTest).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("carrier-pigeon"));
}

}  // namespace
}  // namespace invoker
