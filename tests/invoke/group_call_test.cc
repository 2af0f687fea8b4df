// Calls of a group one by one: their futures, their end by Cancel, and payloads of any size.

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "invoker/client_group.h"
#include "tests/invoke/served_client.h"
#include "tests/invoke/with_output.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 64 << 10;
constexpr size_t kLarge = 3 << 20;

std::string Stamped(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 0x9e3779b1u) >> 13 | 1);
  return bytes;
}

Bytes BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Two workers of one executor each, whose windows are small.
class GroupCallTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    WorkerOptions small;
    small.window_bytes = kWindow;
    a_ = std::make_unique<ServedWorker>(GetParam(), small);
    b_ = std::make_unique<ServedWorker>(GetParam(), small);
    ClientOptions options;
    options.peer_timeout = absl::Seconds(5);
    auto group = ClientGroup::Connect(
        absl::StrCat(a_->server->listen_address(), ",", b_->server->listen_address()), options);
    ASSERT_TRUE(group.ok()) << group.status();
    group_ = *std::move(group);
  }

  GroupFunction FunctionOf(const std::string& name) const {
    absl::StatusOr<GroupFunction> function = group_->Function(name);
    EXPECT_TRUE(function.ok()) << function.status();
    return *std::move(function);
  }
  uint32_t calls() const { return group_->calls(0) + group_->calls(1); }
  void OpenGates() {
    a_->functions.open.Notify();
    b_->functions.open.Notify();
  }
  // Until both executors have answered all calls.
  void AwaitAnswers() {
    for (size_t i = 0; i < 2; ++i) {
      Client& client = group_->client(i);
      EXPECT_TRUE(client.Invoke(Find(client, "echo"), "").ok());
    }
  }

  std::unique_ptr<ServedWorker> a_;
  std::unique_ptr<ServedWorker> b_;
  std::unique_ptr<ClientGroup> group_;
};

INSTANTIATE_TEST_SUITE_P(Providers, GroupCallTest, testing::Values("tcp;ofi_rxm", "shm"),
                         NameOfProvider);

// A group that closes while its executors are busy. Over shm, executors of the same process must
// not be (docs/design/libfabric.md).
class BusyExecutorsTest : public GroupCallTest {};

INSTANTIATE_TEST_SUITE_P(Providers, BusyExecutorsTest, testing::Values("tcp;ofi_rxm"),
                         NameOfProvider);

TEST_P(GroupCallTest, AFutureHasTheResultOnce) {
  const GroupFunction echo = FunctionOf("echo");
  std::vector<GroupFuture> futures;
  for (int i = 0; i < 40; ++i) futures.push_back(group_->InvokeAsync(echo, absl::StrCat("n", i)));
  EXPECT_EQ(calls(), 40u);
  EXPECT_EQ(group_->calls(0), 20u);
  for (int i = 0; i < 40; ++i) {
    absl::StatusOr<Response> response = futures[i].Get();
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->text(), absl::StrCat("n", i));
    EXPECT_TRUE(futures[i].Wait(absl::InfiniteDuration()));
    EXPECT_TRUE(absl::IsFailedPrecondition(futures[i].Get().status()));
  }
  EXPECT_EQ(calls(), 0u);
}

TEST_P(GroupCallTest, AFutureMayBeWaitedForInACallback) {
  const GroupFunction echo = FunctionOf("echo");
  absl::Notification done;
  std::string both;
  group_->InvokeAsync(echo, "first", {}, [&](absl::StatusOr<Response> first) {
    ASSERT_TRUE(first.ok()) << first.status();
    GroupFuture inner[] = {group_->InvokeAsync(echo, "a"), group_->InvokeAsync(echo, "b")};
    for (GroupFuture& future : inner) {
      absl::StatusOr<Response> response = future.Get();
      ASSERT_TRUE(response.ok()) << response.status();
      absl::StrAppend(&both, response->text());
    }
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_EQ(both, "ab");
}

TEST_P(GroupCallTest, WaitEndsWithItsLimit) {
  GroupFuture future = group_->InvokeAsync(FunctionOf("gate"), "");
  EXPECT_FALSE(future.Wait(absl::ZeroDuration()));
  EXPECT_FALSE(future.Wait(absl::Milliseconds(1)));
  OpenGates();
  EXPECT_TRUE(future.Wait(absl::InfiniteDuration()));
  EXPECT_EQ(calls(), 0u);
  EXPECT_FALSE(future.Cancel());
  EXPECT_TRUE(future.Get().ok());
}

TEST_P(GroupCallTest, ACancelledCallEndsAndItsExecutorIsNotLost) {
  const GroupFunction gate = FunctionOf("gate");
  CallOptions twice;
  twice.retry = 1;
  for (const CallOptions& options : {CallOptions(), twice}) {
    GroupFuture future = group_->InvokeAsync(gate, "", options);
    EXPECT_TRUE(future.Cancel());
    EXPECT_FALSE(future.Cancel());
    EXPECT_TRUE(absl::IsCancelled(future.Get().status()));

    absl::Status status;
    absl::Notification done;
    GroupFuture with_callback =
        group_->InvokeAsync(gate, "", options, [&](absl::StatusOr<Response> response) {
          status = response.status();
          done.Notify();
        });
    EXPECT_TRUE(absl::IsFailedPrecondition(with_callback.Get().status()));
    EXPECT_TRUE(with_callback.Cancel());
    done.WaitForNotification();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_FALSE(with_callback.Cancel());
  }
  EXPECT_EQ(group_->left(), 2u);
  EXPECT_EQ(calls(), 0u);
  OpenGates();
  AwaitAnswers();
}

TEST_P(BusyExecutorsTest, AFutureOutlivesItsGroup) {
  GroupFuture future = group_->InvokeAsync(FunctionOf("gate"), "");
  GroupFuture unread = group_->InvokeAsync(FunctionOf("gate"), "");
  a_->functions.entered.WaitForNotification();
  b_->functions.entered.WaitForNotification();
  std::thread opens([&] {
    EXPECT_TRUE(absl::IsCancelled(future.Get().status()));
    OpenGates();
  });
  group_.reset();
  opens.join();
  EXPECT_FALSE(unread.Cancel());
}

TEST_P(BusyExecutorsTest, CloseEndsTheCallsOfOtherThreads) {
  const GroupFunction gate = FunctionOf("gate");
  absl::Status status;
  std::thread calls([&] { status = group_->Invoke(gate, "").status(); });
  std::vector<GroupFuture> futures;
  for (int i = 0; i < 3; ++i) futures.push_back(group_->InvokeAsync(gate, ""));
  a_->functions.entered.WaitForNotification();
  b_->functions.entered.WaitForNotification();
  group_->Close();
  calls.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  for (GroupFuture& future : futures) {
    EXPECT_TRUE(absl::IsCancelled(future.Get().status()));
  }
  EXPECT_FALSE(group_->Invoke(gate, "").ok());
  group_->Close();
  OpenGates();
}

TEST_P(GroupCallTest, PayloadsOfAnySizeGoEveryWay) {
  const GroupFunction echo = FunctionOf("echo");
  const std::string input = Stamped(kLarge);
  CallOptions twice;
  twice.retry = 1;
  for (const CallOptions& options : {CallOptions(), twice}) {
    std::string output(kLarge, '\0');
    const CallOptions large = WithOutput(CallOutput(output.data(), output.size()), options);
    const auto expect_same = [&](const absl::StatusOr<Response>& response) {
      ASSERT_TRUE(response.ok()) << response.status();
      EXPECT_EQ(response->data().data(), reinterpret_cast<const std::byte*>(output.data()));
      EXPECT_TRUE(response->text() == input);
      EXPECT_NE(group_->ClientOf(response->session()), nullptr);
      output.assign(kLarge, '\0');
    };
    expect_same(group_->Invoke(echo, input, large));
    expect_same(group_->InvokeAsync(echo, input, large).Get());
    absl::Notification done;
    group_->InvokeAsync(echo, input, large, [&](absl::StatusOr<Response> response) {
      expect_same(response);
      done.Notify();
    });
    done.WaitForNotification();
    // A map's answers go to the windows.
    MapOptions map;
    map.call = options;
    for (const absl::StatusOr<std::string>& result : group_->Map(
             FunctionOf("burn"), std::vector<std::string>(5, std::string(kLarge, '\0')), map)) {
      EXPECT_TRUE(result.ok()) << result.status();
    }
  }
}

TEST_P(GroupCallTest, InputInPartsIsPutTogether) {
  const GroupFunction echo = FunctionOf("echo");
  const std::string large = Stamped(kLarge);
  CallOptions twice;
  twice.retry = 1;
  for (const CallOptions& options : {CallOptions(), twice}) {
    for (const std::vector<std::string>& texts : {std::vector<std::string>{},
                                                  {"", ""},
                                                  {"one"},
                                                  {"", "two", " and ", "three", ""},
                                                  {"large: ", large, large}}) {
      std::vector<Bytes> parts;
      std::string whole;
      for (const std::string& text : texts) {
        parts.push_back(BytesOf(text));
        whole += text;
      }
      const CallInput input{absl::MakeConstSpan(parts)};
      std::string output(2 * kLarge + 8, '\0');
      CallOptions mine = options;
      if (whole.size() > kWindow) mine.output = CallOutput(output.data(), output.size());
      absl::StatusOr<Response> response = group_->Invoke(echo, input, mine);
      ASSERT_TRUE(response.ok()) << response.status();
      EXPECT_TRUE(response->text() == whole);
      response = group_->InvokeAsync(echo, input, mine).Get();
      ASSERT_TRUE(response.ok()) << response.status();
      EXPECT_TRUE(response->text() == whole);
    }
  }
}

// While the request window has no room the parts are put together elsewhere, and the call waits.
TEST_P(GroupCallTest, InputInPartsWaitsForRoom) {
  const std::shared_ptr<Client> client = group_->ShareClient(0);
  const std::string half = Stamped(client->max_payload() / 2);
  const Bytes parts[] = {BytesOf(half), BytesOf(half)};
  const CallInput input{absl::MakeConstSpan(parts)};
  CallOptions options;
  options.response_capacity = 64;
  const RemoteFunction gate = Find(*client, "gate");
  Future first = client->InvokeAsync(gate, input, options);
  ServedWorker& called = client->server() == a_->server->listen_address() ? *a_ : *b_;
  called.functions.entered.WaitForNotification();
  CallOptions at_once = options;
  at_once.when_full = WhenFull::kFail;
  const absl::Status full = client->Invoke(gate, input, at_once).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(GetCallFate(full), CallFate::kNotSent);
  std::thread opens([&] { called.functions.open.Notify(); });
  EXPECT_TRUE(client->Invoke(gate, input, options).ok());
  EXPECT_TRUE(first.Get().ok());
  opens.join();
  EXPECT_TRUE(client->AllocateBuffer(client->max_payload()).ok());
}

TEST_P(GroupCallTest, WhatBelongsToOneClientIsRefused) {
  Client& client = group_->client(0);
  const GroupFunction echo = FunctionOf("echo");
  absl::StatusOr<Buffer> buffer = client.AllocateBuffer(8);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  std::string memory(kLarge, '\0');
  absl::StatusOr<RegisteredWindow> window =
      client.RegisterWindow(memory.data(), memory.size(), WindowAccess::kReadWrite);
  ASSERT_TRUE(window.ok()) << window.status();
  const CallOptions output = WithOutput({*window, 0, 8});
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "belongs to one client")) << status;
    EXPECT_EQ(GetCallFate(status), CallFate::kNotSent);
  };
  expect_refused(group_->Invoke(echo, {*buffer, 8}).status());
  expect_refused(group_->Invoke(echo, {*window, 0, 8}).status());
  expect_refused(group_->Invoke(echo, "text", output).status());
  expect_refused(group_->InvokeAsync(echo, {*buffer, 8}).Get().status());
  absl::Status status;
  GroupFuture refused = group_->InvokeAsync(
      echo, "text", output, [&](absl::StatusOr<Response> response) { status = response.status(); });
  expect_refused(status);
  EXPECT_FALSE(refused.Cancel());
  EXPECT_EQ(calls(), 0u);
}

TEST_P(GroupCallTest, AResponseTellsWhichClientItCameBy) {
  const GroupFunction echo = FunctionOf("echo");
  std::vector<uint64_t> sessions;
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<Response> response = group_->Invoke(echo, "x");
    ASSERT_TRUE(response.ok()) << response.status();
    const std::shared_ptr<Client> client = group_->ClientOf(response->session());
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(client->session(), response->session());
    sessions.push_back(response->session());
  }
  EXPECT_NE(sessions[0], sessions[1]);
  EXPECT_EQ(group_->ClientOf(0), nullptr);
}

}  // namespace
}  // namespace invoker
