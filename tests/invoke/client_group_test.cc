// Calls and maps over several executors, of workers in this process.

#include "invoker/client_group.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"

namespace invoker {
namespace {

Bytes AsBytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::vector<std::string> Numbers(int count) {
  std::vector<std::string> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(absl::StrCat("item ", i));
  return numbers;
}

// The inputs, one after the other; `taken` counts them.
MapSource SourceOf(const std::vector<std::string>& inputs, size_t* taken) {
  return [&inputs, taken]() -> std::optional<absl::StatusOr<MapInput>> {
    if (*taken == inputs.size()) return std::nullopt;
    return MapInput(inputs[(*taken)++]);
  };
}

uint32_t CallsUnderWay(const ClientGroup& group) {
  uint32_t calls = 0;
  for (size_t i = 0; i < group.size(); ++i) calls += group.calls(i);
  return calls;
}

class ClientGroupTest : public testing::TestWithParam<const char*> {
 protected:
  static WorkerOptions Executors(uint32_t count) {
    WorkerOptions options;
    options.executors = count;
    return options;
  }
  static std::unique_ptr<ClientGroup> Connect(const std::string& servers, size_t sessions = 0) {
    ClientOptions options;
    options.hot_timeout = absl::Microseconds(50);
    options.peer_timeout = absl::Seconds(5);
    auto group = ClientGroup::Connect(servers, options, sessions);
    EXPECT_TRUE(group.ok()) << group.status();
    return group.ok() ? *std::move(group) : nullptr;
  }
  static GroupFunction FunctionOf(const ClientGroup& group, const std::string& name) {
    absl::StatusOr<GroupFunction> function = group.Function(name);
    EXPECT_TRUE(function.ok()) << function.status();
    return *std::move(function);
  }
};

INSTANTIATE_TEST_SUITE_P(Providers, ClientGroupTest, testing::Values("tcp;ofi_rxm", "shm"),
                         NameOfProvider);

// A worker that ends under a client of the same process. Over shm the two would share one mapping
// of the worker's queues, which goes with it: there servers of their own processes are lost, in
// tests/lease.
class LostWorkerTest : public ClientGroupTest {};

INSTANTIATE_TEST_SUITE_P(Providers, LostWorkerTest, testing::Values("tcp;ofi_rxm"), NameOfProvider);

TEST_P(ClientGroupTest, AGroupHasASessionWithEveryExecutorOfEveryServer) {
  ServedWorker two(GetParam(), Executors(2));
  ServedWorker one(GetParam(), Executors(1));
  const std::string servers =
      absl::StrCat(two.server->listen_address(), ",", one.server->listen_address());
  std::unique_ptr<ClientGroup> group = Connect(servers);
  ASSERT_NE(group, nullptr);
  ASSERT_EQ(group->size(), 3u);
  std::set<std::string> seen;
  for (size_t i = 0; i < group->size(); ++i) {
    seen.insert(absl::StrCat(group->client(i).server(), "/", group->client(i).executor()));
  }
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(Connect(servers, 2)->size(), 4u);
}

TEST_P(ClientGroupTest, CallsGoToTheExecutorWithTheFewestUnderWay) {
  ServedWorker busy(GetParam());
  ServedWorker idle(GetParam());
  std::unique_ptr<ClientGroup> group =
      Connect(absl::StrCat(busy.server->listen_address(), ",", idle.server->listen_address()));
  ASSERT_NE(group, nullptr);
  const GroupFunction echo = FunctionOf(*group, "echo");
  // One of the two is blocked, whichever it is.
  absl::Notification gate_done;
  group->InvokeAsync(FunctionOf(*group, "gate"), Bytes(), {}, [&](absl::StatusOr<Response> result) {
    EXPECT_TRUE(result.ok()) << result.status();
    gate_done.Notify();
  });
  ASSERT_EQ(CallsUnderWay(*group), 1u);
  ServedWorker& free = group->calls(0) == 1 ? idle : busy;
  ServedWorker& blocked = group->calls(0) == 1 ? busy : idle;
  for (int i = 0; i < 20; ++i) {
    absl::StatusOr<Response> response = group->Invoke(echo, "x");
    ASSERT_TRUE(response.ok()) << response.status();
  }
  EXPECT_EQ(free.functions.calls, 20u);
  blocked.functions.open.Notify();
  gate_done.WaitForNotification();
  EXPECT_EQ(CallsUnderWay(*group), 0u);
}

TEST_P(ClientGroupTest, IdleExecutorsTakeTurns) {
  ServedWorker a(GetParam());
  ServedWorker b(GetParam());
  std::unique_ptr<ClientGroup> group =
      Connect(absl::StrCat(a.server->listen_address(), ",", b.server->listen_address()));
  ASSERT_NE(group, nullptr);
  const GroupFunction echo = FunctionOf(*group, "echo");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(group->Invoke(echo, "x").ok());
  EXPECT_EQ(a.functions.calls, 5u);
  EXPECT_EQ(b.functions.calls, 5u);
}

TEST_P(ClientGroupTest, MapReturnsEveryResultInItsPlace) {
  ServedWorker a(GetParam(), Executors(2));
  ServedWorker b(GetParam());
  std::unique_ptr<ClientGroup> group =
      Connect(absl::StrCat(a.server->listen_address(), ",", b.server->listen_address()));
  ASSERT_NE(group, nullptr);
  const std::vector<std::string> inputs = Numbers(500);
  MapOptions options;
  std::vector<uint64_t> progress;
  options.on_progress = [&](uint64_t done, uint64_t total) {
    progress.push_back(done);
    EXPECT_EQ(total, 500u);
  };
  const auto results = group->Map(FunctionOf(*group, "echo"), inputs, options);
  ASSERT_EQ(results.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << i << ": " << results[i].status();
    EXPECT_EQ(*results[i], inputs[i]);
  }
  ASSERT_EQ(progress.size(), 500u);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back(), 500u);
  EXPECT_GT(b.functions.calls, 0u);
  EXPECT_EQ(a.functions.calls + b.functions.calls, 500u);
}

TEST_P(ClientGroupTest, OrderedResultsComeInOrderThoughCallsEndInAnother) {
  ServedWorker slow(GetParam());
  ServedWorker fast(GetParam());
  std::unique_ptr<ClientGroup> group =
      Connect(absl::StrCat(slow.server->listen_address(), ",", fast.server->listen_address()));
  ASSERT_NE(group, nullptr);
  // Every call of one of the two takes a while, of the other none.
  const GroupFunction burn = FunctionOf(*group, "burn");
  std::vector<std::string> inputs;
  for (int i = 0; i < 60; ++i) {
    const uint64_t turns = i % 3 == 0 ? 300'000 : 0;
    inputs.emplace_back(reinterpret_cast<const char*>(&turns), sizeof(turns));
  }
  for (const bool ordered : {true, false}) {
    size_t taken = 0;
    MapOptions options;
    options.ordered = ordered;
    MapRun run = group->StartMap(burn, SourceOf(inputs, &taken), options);
    std::vector<uint64_t> order;
    while (std::optional<MapResult> result = run.Next()) {
      EXPECT_TRUE(result->response.ok()) << result->response.status();
      order.push_back(result->index);
    }
    EXPECT_EQ(order.size(), inputs.size());
    if (ordered) {
      EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    }
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
  }
}

// One item waits at a gate. As completed, all others pass it; in order, none does.
TEST_P(ClientGroupTest, AnItemThatTakesLongHoldsUpOrderedResultsOnly) {
  ServedWorker a(GetParam());
  ServedWorker b(GetParam());
  std::unique_ptr<ClientGroup> group =
      Connect(absl::StrCat(a.server->listen_address(), ",", b.server->listen_address()));
  ASSERT_NE(group, nullptr);
  const GroupFunction gate = FunctionOf(*group, "gate");
  const std::vector<std::string> inputs = Numbers(2);
  size_t taken = 0;
  MapOptions options;
  options.max_in_flight = 2;
  options.ordered = true;
  MapRun ordered = group->StartMap(gate, SourceOf(inputs, &taken), options);
  size_t taken_too = 0;
  options.ordered = false;
  // Their calls wait behind those, one at each executor.
  MapRun as_completed =
      group->StartMap(FunctionOf(*group, "echo"), SourceOf(inputs, &taken_too), options);
  a.functions.entered.WaitForNotification();
  b.functions.entered.WaitForNotification();
  // Let one executor go on: the one that does not have the first item.
  EXPECT_FALSE(ordered.Wait(absl::Milliseconds(1)));
  EXPECT_FALSE(as_completed.Wait(absl::Milliseconds(1)));
  b.functions.open.Notify();
  std::optional<MapResult> result = as_completed.Next();
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->response.ok()) << result->response.status();
  EXPECT_FALSE(as_completed.Wait(absl::Milliseconds(1)));
  a.functions.open.Notify();
  EXPECT_TRUE(as_completed.Next().has_value());
  EXPECT_FALSE(as_completed.Next().has_value());
  EXPECT_EQ(ordered.Next()->index, 0u);
  EXPECT_EQ(ordered.Next()->index, 1u);
  EXPECT_FALSE(ordered.Next().has_value());
}

TEST_P(ClientGroupTest, WhatIsUnderWayAndWhatIsHeldIsBounded) {
  ServedWorker served(GetParam(), Executors(2));
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  const std::vector<std::string> inputs = Numbers(1000);
  constexpr size_t kInFlight = 5;
  size_t taken = 0;
  MapOptions options;
  options.max_in_flight = kInFlight;
  uint32_t most = 0;
  auto source = [&, next = SourceOf(inputs, &taken)]() mutable {
    most = std::max(most, CallsUnderWay(*group));
    return next();
  };
  {
    MapRun gated = group->StartMap(FunctionOf(*group, "gate"), SourceOf(inputs, &taken), options);
    EXPECT_EQ(CallsUnderWay(*group), kInFlight);
    EXPECT_FALSE(gated.Wait(absl::Milliseconds(20)));
    EXPECT_EQ(CallsUnderWay(*group), kInFlight);
    EXPECT_LE(taken, 2 * kInFlight);
    served.functions.open.Notify();
  }
  while (CallsUnderWay(*group) > 0) std::this_thread::yield();
  taken = 0;
  MapRun run = group->StartMap(FunctionOf(*group, "echo"), std::move(source), options);
  // Nobody takes a result: it comes to a standstill, with inputs left.
  while (CallsUnderWay(*group) > 0) std::this_thread::yield();
  EXPECT_LE(taken, 5 * kInFlight);
  size_t results = 0;
  while (run.Next().has_value()) {
    ++results;
    EXPECT_LE(taken, results + 5 * kInFlight);
  }
  EXPECT_EQ(results, inputs.size());
  EXPECT_LE(most, kInFlight);
}

TEST_P(ClientGroupTest, AnErrorIsItsItemsAlone) {
  ServedWorker served(GetParam(), Executors(2));
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  std::vector<std::string> inputs = Numbers(50);
  inputs[7] = "longer than the capacity";
  MapOptions options;
  options.call.response_capacity = 8;
  inputs[9] = "more than the capacity takes";
  const auto results = group->Map(FunctionOf(*group, "echo"), inputs, options);
  for (size_t i = 0; i < results.size(); ++i) {
    if (i == 7 || i == 9) {
      EXPECT_TRUE(absl::IsResourceExhausted(results[i].status())) << results[i].status();
      EXPECT_EQ(GetCallFate(results[i].status()), CallFate::kExecuted);
    } else {
      ASSERT_TRUE(results[i].ok()) << i << ": " << results[i].status();
      EXPECT_EQ(*results[i], inputs[i]);
    }
  }
  EXPECT_EQ(group->left(), 2u);
}

TEST_P(ClientGroupTest, ASourceMayFailForAnItem) {
  ServedWorker served(GetParam());
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  int next = 0;
  MapRun run =
      group->StartMap(FunctionOf(*group, "echo"), [&]() -> std::optional<absl::StatusOr<MapInput>> {
        if (next == 30) return std::nullopt;
        if (next++ % 3 == 0) return absl::NotFoundError("no such file");
        return MapInput(std::string("data"));
      });
  for (uint64_t i = 0; i < 30; ++i) {
    std::optional<MapResult> result = run.Next();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->index, i);
    EXPECT_EQ(absl::IsNotFound(result->response.status()), i % 3 == 0);
    EXPECT_EQ(result->response.ok(), i % 3 != 0);
  }
  EXPECT_FALSE(run.Next().has_value());
}

TEST_P(ClientGroupTest, AfterAnErrorNoMoreIsTakenIfAsked) {
  ServedWorker served(GetParam());
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  const std::vector<std::string> inputs = Numbers(100);
  MapOptions options;
  options.stop_on_error = true;
  options.max_in_flight = 1;
  const auto results = group->Map(FunctionOf(*group, "fail"), inputs, options);
  ASSERT_EQ(results.size(), 100u);
  EXPECT_EQ(GetFunctionCode(results[0].status()), -1234);
  for (size_t i = 1; i < results.size(); ++i) {
    EXPECT_TRUE(absl::IsCancelled(results[i].status())) << results[i].status();
    EXPECT_EQ(GetCallFate(results[i].status()), CallFate::kNotSent);
  }
  EXPECT_EQ(served.functions.calls, 1u);
}

TEST_P(ClientGroupTest, NoInputsAreNoResults) {
  ServedWorker served(GetParam());
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  const GroupFunction echo = FunctionOf(*group, "echo");
  EXPECT_TRUE(group->Map(echo, {}).empty());
  size_t taken = 0;
  const std::vector<std::string> none;
  MapRun run = group->StartMap(echo, SourceOf(none, &taken));
  EXPECT_TRUE(run.Wait(absl::InfiniteDuration()));
  EXPECT_FALSE(run.Next().has_value());
  const auto empty = group->Map(echo, std::vector<std::string>{""});
  ASSERT_TRUE(empty[0].ok()) << empty[0].status();
  EXPECT_EQ(*empty[0], "");
}

TEST_P(ClientGroupTest, ARunThatGoesStartsNothingMore) {
  ServedWorker served(GetParam());
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  const std::vector<std::string> inputs = Numbers(100);
  size_t taken = 0;
  MapOptions options;
  options.max_in_flight = 3;
  {
    MapRun run = group->StartMap(FunctionOf(*group, "gate"), SourceOf(inputs, &taken), options);
    served.functions.entered.WaitForNotification();
  }
  served.functions.open.Notify();
  // Those that were under way end, and the group goes on.
  while (CallsUnderWay(*group) > 0) std::this_thread::yield();
  EXPECT_EQ(served.functions.calls, 3u);
  EXPECT_TRUE(group->Invoke(FunctionOf(*group, "echo"), "x").ok());
}

TEST_P(ClientGroupTest, AGroupMayGoWhileCallsAreUnderWay) {
  ServedWorker served(GetParam(), Executors(2));
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  absl::Status status;
  absl::Notification done;
  group->InvokeAsync(FunctionOf(*group, "gate"), Bytes(), {}, [&](absl::StatusOr<Response> result) {
    status = result.status();
    done.Notify();
  });
  served.functions.entered.WaitForNotification();
  // Closing a session waits for its executor, which the gate keeps busy.
  std::thread opens([&] {
    done.WaitForNotification();
    served.functions.open.Notify();
  });
  group.reset();
  opens.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

// Windows of one page: some calls have to wait for others' room.
TEST_P(ClientGroupTest, ItemsWaitForRoomInTheWindows) {
  WorkerOptions small = Executors(2);
  small.window_bytes = 4096;
  ServedWorker served(GetParam(), small);
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  std::vector<std::string> inputs;
  for (int i = 0; i < 200; ++i) inputs.emplace_back(i % 4000, 'r');
  MapOptions options;
  options.max_in_flight = 32;
  options.call.response_capacity = 4000;
  const auto results = group->Map(FunctionOf(*group, "echo"), inputs, options);
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << i << ": " << results[i].status();
    EXPECT_EQ(*results[i], inputs[i]);
  }
}

// What fills the window is not the run's.
TEST_P(ClientGroupTest, ItemsWaitForRoomThatOthersHold) {
  WorkerOptions small = Executors(1);
  small.window_bytes = 4096;
  ServedWorker served(GetParam(), small);
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  CallOptions large;
  large.response_capacity = 4000;
  absl::Notification gate_done;
  group->InvokeAsync(FunctionOf(*group, "gate"), Bytes(), large,
                     [&](const absl::StatusOr<Response>&) { gate_done.Notify(); });
  served.functions.entered.WaitForNotification();
  std::thread opens([&] { served.functions.open.Notify(); });
  MapOptions options;
  options.call.response_capacity = 1000;
  const std::vector<std::string> inputs = Numbers(10);
  const auto results = group->Map(FunctionOf(*group, "echo"), inputs, options);
  opens.join();
  gate_done.WaitForNotification();
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.status();
}

TEST_P(ClientGroupTest, ResultsThatTheProgramKeepsAreAnErrorAndNoStandstill) {
  WorkerOptions small = Executors(1);
  small.window_bytes = 4096;
  ServedWorker served(GetParam(), small);
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  const std::vector<std::string> inputs = Numbers(3);
  size_t taken = 0;
  MapOptions options;
  options.call.response_capacity = 4000;
  MapRun run = group->StartMap(FunctionOf(*group, "echo"), SourceOf(inputs, &taken), options);
  std::optional<MapResult> first = run.Next();
  ASSERT_TRUE(first.has_value() && first->response.ok());
  std::optional<MapResult> second = run.Next();
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(second->response.status())) << second->response.status();
  EXPECT_EQ(GetCallFate(second->response.status()), CallFate::kNotSent);
}

TEST_P(LostWorkerTest, AServerThatIsLostLeavesTheRestToTheOther) {
  auto doomed = std::make_unique<ServedWorker>(GetParam());
  ServedWorker other(GetParam());
  std::unique_ptr<ClientGroup> group =
      Connect(absl::StrCat(doomed->server->listen_address(), ",", other.server->listen_address()));
  ASSERT_NE(group, nullptr);
  const GroupFunction echo = FunctionOf(*group, "echo");
  const std::vector<std::string> inputs = Numbers(400);
  size_t taken = 0;
  MapRun run = group->StartMap(echo, SourceOf(inputs, &taken));
  size_t failed = 0;
  size_t done = 0;
  while (std::optional<MapResult> result = run.Next()) {
    EXPECT_EQ(result->index, done);
    if (result->response.ok()) {
      EXPECT_EQ(result->response->text(), inputs[result->index]);
    } else {
      EXPECT_TRUE(absl::IsUnavailable(result->response.status())) << result->response.status();
      ++failed;
    }
    result.reset();
    if (++done == 100) doomed.reset();
  }
  EXPECT_EQ(done, inputs.size());
  // No more than were under way.
  EXPECT_LE(failed, 4u);
  EXPECT_EQ(group->left(), 1u);
  EXPECT_TRUE(group->status().ok()) << group->status();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(group->Invoke(echo, "x").ok());
}

TEST_P(LostWorkerTest, WithNoExecutorLeftTheRestIsNotSent) {
  auto served = std::make_unique<ServedWorker>(GetParam(), Executors(2));
  std::unique_ptr<ClientGroup> group = Connect(served->server->listen_address());
  ASSERT_NE(group, nullptr);
  const GroupFunction echo = FunctionOf(*group, "echo");
  served.reset();
  const auto results = group->Map(echo, Numbers(50));
  size_t not_sent = 0;
  for (const auto& result : results) {
    EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
    not_sent += GetCallFate(result.status()) == CallFate::kNotSent ? 1 : 0;
  }
  EXPECT_GE(not_sent, 46u);
  EXPECT_EQ(group->left(), 0u);
  EXPECT_TRUE(absl::StrContains(group->status().message(), "none of the 2 executors is left"))
      << group->status();
  const absl::Status later = group->Invoke(echo, "x").status();
  EXPECT_EQ(GetCallFate(later), CallFate::kNotSent) << later;
  absl::Status asynchronous;
  group->InvokeAsync(echo, AsBytes("x"), {}, [&](const absl::StatusOr<Response>& result) {
    asynchronous = result.status();
  });
  EXPECT_EQ(GetCallFate(asynchronous), CallFate::kNotSent) << asynchronous;
}

TEST_P(ClientGroupTest, ListsOfServersThatMakeNoSenseAreRefused) {
  ServedWorker served(GetParam());
  const std::string server = served.server->listen_address();
  for (const std::string& list : {std::string(), server + ",", "," + server, server + "," + server,
                                  std::string("nowhere"), server + ",nowhere"}) {
    const absl::Status status = ClientGroup::Connect(list).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << list << ": " << status;
  }
}

TEST_P(ClientGroupTest, AnUnknownFunctionIsNotFound) {
  ServedWorker served(GetParam());
  std::unique_ptr<ClientGroup> group = Connect(served.server->listen_address());
  ASSERT_NE(group, nullptr);
  const absl::Status status = group->Function("nothing").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), served.server->listen_address())) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "echo")) << status;
}

}  // namespace
}  // namespace invoker
