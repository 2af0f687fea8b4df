// A worker that gets further functions while calls are under way.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

CallOptions Capacity(uint32_t bytes) {
  CallOptions options;
  options.response_capacity = bytes;
  return options;
}

// Answers with its own context, which is its number. The name is long, so that a copy of it lies
// elsewhere.
FunctionEntry Numbered(uintptr_t number) {
  FunctionEntry entry;
  entry.name = absl::StrCat("numbered.by.the.context.of.its.entry.", number);
  entry.function = [](invoker_call* call) -> int64_t {
    if (call->output_capacity < sizeof(call->context)) return INVOKER_FAILED;
    memcpy(call->output, &call->context, sizeof(call->context));
    return sizeof(call->context);
  };
  entry.context = reinterpret_cast<void*>(number);
  entry.library = "the test";
  return entry;
}

std::vector<std::string> NamesOf(const std::vector<bootstrap::FunctionInfo>& functions) {
  std::vector<std::string> names;
  for (const bootstrap::FunctionInfo& function : functions) names.push_back(function.name);
  return names;
}

class AddFunctionsTest : public testing::TestWithParam<const char*> {
 protected:
  static WorkerOptions TwoExecutors() {
    WorkerOptions options;
    options.executors = 2;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Providers, AddFunctionsTest, testing::Values("tcp;ofi_rxm", "shm"),
                         NameOfProvider);

TEST_P(AddFunctionsTest, CallsOfOtherSessionsGoOnMeanwhile) {
  constexpr uintptr_t kAdded = 300;  // so that what holds them grows more than once
  ServedWorker served(GetParam(), TwoExecutors());
  // The least loaded executor gets the next session: these two have one each.
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(served.Connect());
  ASSERT_NE(clients[0]->executor(), clients[1]->executor());
  std::atomic<bool> added{false};
  std::vector<std::thread> callers;
  for (const std::unique_ptr<Client>& client : clients) {
    callers.emplace_back([&added, &client] {
      const RemoteFunction echo = Find(*client, "echo");
      for (int i = 0; !added || i < 100; ++i) {
        const std::string text = absl::StrCat("call ", i);
        absl::StatusOr<Response> response = client->Invoke(echo, text, Capacity(64));
        ASSERT_TRUE(response.ok()) << response.status();
        ASSERT_EQ(response->text(), text);
      }
    });
  }
  const std::vector<std::string> before = NamesOf(served.worker->Info().functions);
  for (uintptr_t number = 0; number < kAdded; number += 3) {
    auto all =
        served.worker->AddFunctions({Numbered(number), Numbered(number + 1), Numbered(number + 2)});
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_EQ(all->size(), before.size() + number + 3);
    EXPECT_EQ(NamesOf(*all), NamesOf(served.worker->Info().functions));
  }
  added = true;
  for (std::thread& caller : callers) caller.join();

  std::vector<std::string> names = NamesOf(served.worker->Info().functions);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(names[i], before[i]);
  // On both executors.
  for (int i = 0; i < 2; ++i) clients.push_back(served.Connect());
  EXPECT_NE(clients[2]->executor(), clients[3]->executor());
  for (int i = 2; i < 4; ++i) {
    EXPECT_EQ(clients[i]->FunctionNames().size(), names.size());
    // In one turn, where the executor asks how long each of them takes.
    std::vector<Future> futures;
    for (uintptr_t number = 0; number < kAdded; ++number) {
      futures.push_back(
          clients[i]->InvokeAsync(Find(*clients[i], Numbered(number).name), "", Capacity(8)));
    }
    for (Future& future : futures) EXPECT_TRUE(future.Get().ok());
    for (uintptr_t number = 0; number < kAdded; ++number) {
      const RemoteFunction function = Find(*clients[i], Numbered(number).name);
      EXPECT_EQ(function.id(), before.size() + number);
      absl::StatusOr<Response> response = clients[i]->Invoke(function, "", Capacity(8));
      ASSERT_TRUE(response.ok()) << response.status();
      uintptr_t answer = 0;
      ASSERT_EQ(response->text().size(), sizeof(answer));
      memcpy(&answer, response->text().data(), sizeof(answer));
      EXPECT_EQ(answer, number);
    }
  }
}

TEST_P(AddFunctionsTest, OneThatIsRefusedKeepsTheOthersOut) {
  ServedWorker served(GetParam(), TwoExecutors());
  ASSERT_TRUE(served.worker->AddFunctions({Numbered(1)}).ok());
  const std::vector<std::string> before = NamesOf(served.worker->Info().functions);

  absl::Status taken = served.worker->AddFunctions({Numbered(2), Numbered(1)}).status();
  EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
  EXPECT_TRUE(absl::StrContains(taken.message(), Numbered(1).name)) << taken;
  absl::Status twice = served.worker->AddFunctions({Numbered(3), Numbered(3)}).status();
  EXPECT_TRUE(absl::IsAlreadyExists(twice)) << twice;
  FunctionEntry unnamed = Numbered(4);
  unnamed.name = "";
  absl::Status bad = served.worker->AddFunctions({Numbered(5), unnamed}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(bad)) << bad;
  EXPECT_EQ(NamesOf(served.worker->Info().functions), before);

  // What was kept out can come later, and gets the next id.
  auto all = served.worker->AddFunctions({Numbered(2)});
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), before.size() + 1);
  EXPECT_EQ(all->back().name, Numbered(2).name);
}

TEST_P(AddFunctionsTest, WaitsForTheFunctionThatRuns) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  Future gate = client->InvokeAsync(Find(*client, "gate"), "", Capacity(8));
  served.functions.entered.WaitForNotification();
  std::atomic<bool> opened{false};
  std::thread adder([&] {
    EXPECT_TRUE(served.worker->AddFunctions({Numbered(1)}).ok());
    EXPECT_TRUE(opened);
  });
  // Neither this nor another client's question waits for it.
  const size_t functions = served.worker->Info().functions.size();
  EXPECT_EQ(client->FunctionNames().size(), functions);
  opened = true;
  served.functions.open.Notify();
  adder.join();
  EXPECT_TRUE(gate.Get().ok());
  EXPECT_EQ(served.worker->Info().functions.size(), functions + 1);
}

TEST_P(AddFunctionsTest, AWorkerThatHasStoppedRefuses) {
  ServedWorker served(GetParam());
  const size_t functions = served.worker->Info().functions.size();
  served.worker->Stop(absl::Seconds(1));
  absl::Status status = served.worker->AddFunctions({Numbered(1)}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(served.worker->Info().functions.size(), functions);
}

}  // namespace
}  // namespace invoker
