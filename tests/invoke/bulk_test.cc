// Calls whose payloads are larger than the session's windows, from the caller's side.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "invoker/registered_window.h"
#include "tests/invoke/served_client.h"
#include "tests/invoke/with_output.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 64 << 10;
constexpr uint64_t kPiece = 1 << 20;  // what one transfer moves at most

// Different for every position, and from what memory has by itself.
void Stamp(std::byte* data, size_t size, uint32_t seed) {
  for (size_t i = 0; i < size; ++i) {
    data[i] = static_cast<std::byte>(((i + seed) * 0x9e3779b1u) >> 13 | 1);
  }
}

std::vector<std::byte> Stamped(size_t size, uint32_t seed) {
  std::vector<std::byte> bytes(size);
  Stamp(bytes.data(), size, seed);
  return bytes;
}

class BulkTest : public testing::TestWithParam<const char*> {
 protected:
  void Serve(uint64_t bulk_bytes = kDefaultBulkBytes, uint32_t executors = 1) {
    WorkerOptions options;
    options.window_bytes = kWindow;
    options.executors = executors;
    options.bulk_bytes = bulk_bytes;
    served_ = std::make_unique<ServedWorker>(GetParam(), options);
    client_ = served_->Connect();
    ASSERT_NE(client_, nullptr);
  }

  RegisteredWindow Register(std::vector<std::byte>* memory, WindowAccess access) {
    absl::StatusOr<RegisteredWindow> window =
        client_->RegisterWindow(memory->data(), memory->size(), access);
    EXPECT_TRUE(window.ok()) << window.status();
    return *std::move(window);
  }

  uint64_t calls() const { return served_->functions.calls; }

  std::unique_ptr<ServedWorker> served_;
  std::unique_ptr<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(Providers, BulkTest, testing::Values("tcp;ofi_rxm", "shm"),
                         NameOfProvider);

TEST_P(BulkTest, EverySizeFromAndToAnyOffsetArrivesAndNothingElseIsTouched) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  constexpr size_t kMemory = 20 * kPiece;
  std::vector<std::byte> from = Stamped(kMemory, 1);
  std::vector<std::byte> to(kMemory);
  const RegisteredWindow input = Register(&from, WindowAccess::kRead);
  const RegisteredWindow output = Register(&to, WindowAccess::kWrite);
  const RemoteFunction echo = Find(*client_, "echo");
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{31}, uint64_t{4096}, kPiece - 1,
                              kPiece, kPiece + 1, 8 * kPiece, 17 * kPiece + 3}) {
    for (const auto& [input_offset, output_offset] : std::vector<std::pair<uint64_t, uint64_t>>{
             {0, 0}, {1, 4095}, {kMemory - size, kMemory - size}}) {
      SCOPED_TRACE(testing::Message()
                   << size << " bytes from " << input_offset << " to " << output_offset);
      std::fill(to.begin(), to.end(), std::byte{0});
      absl::StatusOr<Response> result = client_->Invoke(echo, {input, input_offset, size},
                                                        WithOutput({output, output_offset, size}));
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->size(), size);
      EXPECT_EQ(memcmp(to.data() + output_offset, from.data() + input_offset, size), 0);
      const auto untouched = [](std::byte byte) { return byte == std::byte{0}; };
      EXPECT_TRUE(std::all_of(to.begin(), to.begin() + output_offset, untouched));
      EXPECT_TRUE(std::all_of(to.begin() + output_offset + size, to.end(), untouched));
    }
  }
  EXPECT_EQ(from, Stamped(kMemory, 1));
}

TEST_P(BulkTest, OutputShorterThanItsRoomLeavesTheRestAlone) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  std::vector<std::byte> from = Stamped(3 * kPiece, 1);
  std::vector<std::byte> to(5 * kPiece, std::byte{0x5a});
  const RegisteredWindow input = Register(&from, WindowAccess::kRead);
  const RegisteredWindow output = Register(&to, WindowAccess::kWrite);
  absl::StatusOr<Response> result = client_->Invoke(Find(*client_, "echo"), {input, 0, from.size()},
                                                    WithOutput({output, 0, to.size()}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->size(), from.size());
  EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
  EXPECT_TRUE(std::all_of(to.begin() + from.size(), to.end(),
                          [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

TEST_P(BulkTest, InputAndOutputMayBeTheSameMemory) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  std::vector<std::byte> memory = Stamped(4 * kPiece, 1);
  const RegisteredWindow window = Register(&memory, WindowAccess::kReadWrite);
  absl::StatusOr<Response> result = client_->Invoke(Find(*client_, "echo"), {window, 0, 2 * kPiece},
                                                    WithOutput({window, kPiece, 2 * kPiece}));
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<std::byte> before = Stamped(4 * kPiece, 1);
  EXPECT_EQ(memcmp(memory.data() + kPiece, before.data(), 2 * kPiece), 0);
  EXPECT_EQ(memcmp(memory.data(), before.data(), kPiece), 0);
  EXPECT_EQ(memcmp(memory.data() + 3 * kPiece, before.data() + 3 * kPiece, kPiece), 0);
}

TEST_P(BulkTest, EitherSideMayBeAnOrdinaryPayload) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const RemoteFunction echo = Find(*client_, "echo");
  std::vector<std::byte> memory = Stamped(1000, 1);
  const std::vector<std::byte> small = Stamped(700, 2);
  const RegisteredWindow window = Register(&memory, WindowAccess::kReadWrite);
  CallOptions options;
  options.response_capacity = 2000;
  absl::StatusOr<Response> result = client_->Invoke(echo, {window, 10, 900}, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->size(), 900u);
  EXPECT_EQ(memcmp(result->data().data(), memory.data() + 10, 900), 0);
  result = client_->Invoke(echo, small, WithOutput({window, 100, 700}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->size(), 700u);
  EXPECT_EQ(memcmp(memory.data() + 100, small.data(), 700), 0);
}

// Nothing of such a call's outlives its start, and its session may have no window at all.
TEST_P(BulkTest, ACallMayNameNoWindow) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const RemoteFunction echo = Find(*client_, "echo");
  const std::vector<std::byte> bytes = Stamped(5000, 3);
  absl::StatusOr<Response> result = client_->Invoke(echo, bytes);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->size(), bytes.size());
  EXPECT_EQ(result->data(), absl::MakeConstSpan(bytes));
  { const Future dropped = client_->InvokeAsync(echo, bytes); }
  Future future = client_->InvokeAsync(echo, bytes);
  result = future.Get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->data(), absl::MakeConstSpan(bytes));
  // The dropped one may not have left, where the fabric took nothing at first.
  EXPECT_GE(calls(), 2u);
  EXPECT_LE(calls(), 3u);
}

TEST_P(BulkTest, InvokeLargeTakesWhateverThereIs) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const RemoteFunction echo = Find(*client_, "echo");
  for (const uint64_t size : {uint64_t{0}, uint64_t{100}, client_->max_payload() - 40,
                              client_->max_payload(), client_->max_payload() + 1, 5 * kPiece + 7}) {
    for (const uint64_t room : {size, size + 100, size + kWindow}) {
      SCOPED_TRACE(testing::Message() << size << " bytes, room for " << room);
      const std::vector<std::byte> input = Stamped(size, 3);
      std::vector<std::byte> output(room);
      absl::StatusOr<Response> got =
          client_->Invoke(echo, input, WithOutput(absl::MakeSpan(output)));
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->size(), size);
      output.resize(size);
      EXPECT_EQ(output, input);
    }
  }
  // Too small a room, by either way.
  for (const uint64_t size : {uint64_t{100}, kWindow, 3 * kPiece}) {
    const std::vector<std::byte> input = Stamped(size, 3);
    std::vector<std::byte> output(size - 1);
    const absl::Status status =
        client_->Invoke(echo, input, WithOutput(absl::MakeSpan(output))).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), std::to_string(size))) << status;
    EXPECT_EQ(GetCallFate(status), CallFate::kExecuted);
  }
}

TEST_P(BulkTest, ManyAtATimeWithOrdinaryCallsInBetween) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  constexpr int kCalls = 6;
  constexpr uint64_t kSize = 6 * kPiece + 11;
  const RemoteFunction echo = Find(*client_, "echo");
  std::vector<std::byte> from = Stamped(kCalls * kSize, 1);
  std::vector<std::byte> to(kCalls * kSize);
  const RegisteredWindow input = Register(&from, WindowAccess::kRead);
  const RegisteredWindow output = Register(&to, WindowAccess::kWrite);
  std::vector<Future> futures;
  for (int i = 0; i < kCalls; ++i) {
    futures.push_back(client_->InvokeAsync(echo, {input, i * kSize, kSize},
                                           WithOutput({output, i * kSize, kSize})));
  }
  const std::unique_ptr<Client> other = served_->Connect();
  for (int i = 0; i < 100; ++i) {
    const std::string text = "call " + std::to_string(i);
    for (Client* client : {client_.get(), other.get()}) {
      absl::StatusOr<Response> response = client->Invoke(echo, text);
      ASSERT_TRUE(response.ok()) << response.status();
      EXPECT_EQ(response->text(), text);
    }
  }
  for (Future& future : futures) {
    absl::StatusOr<Response> result = future.Get();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->size(), kSize);
  }
  EXPECT_EQ(to, from);
}

TEST_P(BulkTest, WhatCannotBeIsRefusedBeforeItIsSent) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const RemoteFunction echo = Find(*client_, "echo");
  const std::unique_ptr<Client> other = served_->Connect();
  std::vector<std::byte> memory(1000);
  EXPECT_TRUE(
      absl::IsInvalidArgument(client_->RegisterWindow(nullptr, 10, WindowAccess::kRead).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      client_->RegisterWindow(memory.data(), 0, WindowAccess::kRead).status()));
  const RegisteredWindow read = Register(&memory, WindowAccess::kRead);
  const RegisteredWindow write = Register(&memory, WindowAccess::kWrite);
  const CallInput input(read, 0, 1000);
  const CallOutput output(write, 0, 1000);
  const auto refused = [&](Client* client, const CallInput& in, const CallOutput& out) {
    const absl::Status status = client->Invoke(echo, in, WithOutput(out)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(GetCallFate(status), CallFate::kNotSent);
    const absl::Status later = client->InvokeAsync(echo, in, WithOutput(out)).Get().status();
    EXPECT_TRUE(absl::IsInvalidArgument(later)) << later;
  };
  refused(client_.get(), {read, 1, 1000}, output);
  refused(client_.get(), {read, ~uint64_t{0}, 1}, output);
  refused(client_.get(), {read, 1, ~uint64_t{0}}, output);
  refused(client_.get(), {write, 0, 10}, output);
  refused(client_.get(), input, {write, 1001, 0});
  refused(client_.get(), input, {write, 1, 1000});
  refused(client_.get(), input, {read, 0, 10});
  refused(other.get(), input, output);
  EXPECT_EQ(calls(), 0u);
  EXPECT_TRUE(client_->Invoke(echo, input, WithOutput(output)).ok());
}

TEST_P(BulkTest, AFunctionThatFailsSaysWhyAndWritesNothing) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  std::vector<std::byte> from = Stamped(2 * kPiece, 1);
  std::vector<std::byte> to(2 * kPiece);
  const RegisteredWindow input = Register(&from, WindowAccess::kRead);
  const RegisteredWindow output = Register(&to, WindowAccess::kWrite);
  const CallInput in(input, 0, from.size());
  absl::Status status =
      client_->Invoke(Find(*client_, "fail"), in, WithOutput({output, 0, to.size()})).status();
  EXPECT_TRUE(absl::IsUnknown(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "it did not work")) << status;
  EXPECT_EQ(GetCallFate(status), CallFate::kExecuted);
  status =
      client_->Invoke(Find(*client_, "echo"), in, WithOutput({output, 0, to.size() - 1})).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), std::to_string(from.size()))) << status;
  EXPECT_TRUE(
      std::all_of(to.begin(), to.end(), [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_P(BulkTest, CallsThatWantMoreMemoryThanThereIsWaitForOneAnother) {
  ASSERT_NO_FATAL_FAILURE(Serve(/*bulk_bytes=*/6 * kPiece));
  constexpr int kCalls = 5;
  constexpr uint64_t kSize = 2 * kPiece;
  const RemoteFunction echo = Find(*client_, "echo");
  std::vector<std::byte> from = Stamped(kCalls * kSize, 1);
  std::vector<std::byte> to(kCalls * kSize);
  const RegisteredWindow input = Register(&from, WindowAccess::kRead);
  const RegisteredWindow output = Register(&to, WindowAccess::kWrite);
  std::vector<Future> futures;
  for (int i = 0; i < kCalls; ++i) {
    futures.push_back(client_->InvokeAsync(echo, {input, i * kSize, kSize},
                                           WithOutput({output, i * kSize, kSize})));
  }
  for (Future& future : futures) EXPECT_TRUE(future.Get().ok());
  EXPECT_EQ(to, from);
  // More than there will ever be.
  const uint64_t executed = calls();
  const absl::Status status =
      client_->Invoke(echo, {input, 0, 3 * kPiece + 1}, WithOutput({output, 0, 3 * kPiece}))
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(GetCallFate(status), CallFate::kNotExecuted);
  EXPECT_EQ(calls(), executed);
  EXPECT_TRUE(
      client_->Invoke(echo, {input, 0, 3 * kPiece}, WithOutput({output, 0, 3 * kPiece})).ok());
}

TEST_P(BulkTest, TheExecutorsOfAWorkerShareTheMemory) {
  ASSERT_NO_FATAL_FAILURE(Serve(/*bulk_bytes=*/4 * kPiece, /*executors=*/2));
  // A new session goes to the executor with the fewest.
  const std::unique_ptr<Client> other = served_->Connect();
  ASSERT_NE(other, nullptr);
  ASSERT_NE(other->executor(), client_->executor());
  std::vector<std::byte> memory = Stamped(4 * kPiece, 1);
  const RegisteredWindow window = Register(&memory, WindowAccess::kReadWrite);
  std::vector<std::byte> others_memory = Stamped(4 * kPiece, 2);
  absl::StatusOr<RegisteredWindow> others_window =
      other->RegisterWindow(others_memory.data(), others_memory.size(), WindowAccess::kReadWrite);
  ASSERT_TRUE(others_window.ok()) << others_window.status();
  // It holds all of the memory while it runs.
  Future holds = client_->InvokeAsync(Find(*client_, "gate"), {window, 0, 3 * kPiece},
                                      WithOutput({window, 3 * kPiece, kPiece}));
  served_->functions.entered.WaitForNotification();
  EXPECT_EQ(served_->worker->bulk_bytes_used(), 4 * kPiece);
  CallOptions options;
  options.timeout = absl::Milliseconds(50);
  const RemoteFunction echo = Find(*other, "echo");
  const CallInput in(*others_window, 0, kPiece);
  const CallOutput out(*others_window, 2 * kPiece, kPiece);
  const uint64_t executed = calls();
  const absl::Status waits = other->Invoke(echo, in, WithOutput(out, options)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(waits)) << waits;
  EXPECT_EQ(calls(), executed);
  served_->functions.open.Notify();
  EXPECT_TRUE(holds.Get().ok());
  EXPECT_TRUE(other->Invoke(echo, in, WithOutput(out)).ok());
  // One that alone wants more than there is on both together.
  const absl::Status more =
      other->Invoke(echo, {*others_window, 0, 4 * kPiece}, WithOutput({*others_window, 0, 1}))
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(more)) << more;
}

TEST(BulkBudgetTest, SharesAreTakenTogetherAndGivenBackOneByOne) {
  const auto budget = std::make_shared<BulkBudget>(100);
  BulkBudget::Share first;
  auto second = std::make_unique<BulkBudget::Share>();
  ASSERT_TRUE(BulkBudget::Take(budget, 60, 30, &first, second.get()));
  EXPECT_EQ(budget->used(), 90u);
  BulkBudget::Share third;
  BulkBudget::Share fourth;
  EXPECT_FALSE(BulkBudget::Take(budget, 10, 1, &third, &fourth));
  EXPECT_FALSE(BulkBudget::Take(budget, UINT64_MAX, 1, &third, &fourth));
  EXPECT_FALSE(BulkBudget::Take(budget, 1, UINT64_MAX, &third, &fourth));
  EXPECT_EQ(budget->used(), 90u);
  BulkBudget::Share moved = std::move(first);
  EXPECT_EQ(budget->used(), 90u);
  second.reset();
  EXPECT_EQ(budget->used(), 60u);
  // What is taken stays when the limit falls below it.
  budget->set_limit(50);
  EXPECT_FALSE(BulkBudget::Take(budget, 0, 0, &third, &fourth));
  moved = BulkBudget::Share();
  EXPECT_EQ(budget->used(), 0u);
  EXPECT_TRUE(BulkBudget::Take(budget, 50, 0, &third, &fourth));
}

TEST_P(BulkTest, AfterADeadlineTheWindowGoesOnceTheExecutorHasAnswered) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const RemoteFunction echo = Find(*client_, "echo");
  std::vector<std::byte> memory = Stamped(4 * kPiece, 1);
  auto window = std::make_unique<RegisteredWindow>(Register(&memory, WindowAccess::kReadWrite));
  const std::unique_ptr<Client> other = served_->Connect();
  Future gate = other->InvokeAsync(Find(*other, "gate"), "");
  served_->functions.entered.WaitForNotification();
  CallOptions options;
  options.timeout = absl::Milliseconds(20);
  // The executor runs the other call.
  const absl::Status status = client_
                                  ->Invoke(echo, {*window, 0, 2 * kPiece},
                                           WithOutput({*window, 2 * kPiece, 2 * kPiece}, options))
                                  .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  served_->functions.open.Notify();
  window.reset();
  EXPECT_TRUE(gate.Get().ok());
  const std::vector<std::byte> after = memory;
  // What the executor does with the next call it does after it has ended the first.
  EXPECT_TRUE(client_->Invoke(echo, "after").ok());
  EXPECT_EQ(memory, after);
  EXPECT_TRUE(client_->status().ok()) << client_->status();
}

// A client that lends memory does not wait for the executor's thread.
TEST_P(BulkTest, WhileAFunctionRunsMemoryIsLentAndTakenBack) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  const std::unique_ptr<Client> other = served_->Connect();
  Future gate = other->InvokeAsync(Find(*other, "gate"), "");
  served_->functions.entered.WaitForNotification();
  std::vector<std::byte> memory = Stamped(4 * kPiece, 1);
  std::optional<RegisteredWindow> window = Register(&memory, WindowAccess::kReadWrite);
  window.reset();
  std::vector<std::byte> output(memory.size());
  // Registering, too, takes some time on a busy machine.
  CallFate fate = CallFate::kNotSent;
  CallOptions options;
  for (int ms = 50; fate == CallFate::kNotSent && ms < 30'000; ms *= 4) {
    options.timeout = absl::Milliseconds(ms);
    const absl::Status status =
        client_->Invoke(Find(*client_, "echo"), memory, WithOutput(absl::MakeSpan(output), options))
            .status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    fate = GetCallFate(status);
  }
  // It got beyond that.
  EXPECT_EQ(fate, CallFate::kMaybeExecuted);
  served_->functions.open.Notify();
  EXPECT_TRUE(gate.Get().ok());
  EXPECT_TRUE(
      client_->Invoke(Find(*client_, "echo"), memory, WithOutput(absl::MakeSpan(output))).ok());
  EXPECT_EQ(output, memory);
}

TEST_P(BulkTest, ALargeCallWithoutTimeIsNotSent) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  std::vector<std::byte> memory = Stamped(4 * kPiece, 1);
  CallOptions options;
  options.timeout = absl::ZeroDuration();
  const absl::Status status =
      client_->Invoke(Find(*client_, "echo"), memory, WithOutput(absl::MakeSpan(memory), options))
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(GetCallFate(status), CallFate::kNotSent) << status;
}

TEST_P(BulkTest, AServerThatStopsRefusesWhatItHasNotRun) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  std::vector<std::byte> memory = Stamped(2 * kPiece, 1);
  std::optional<RegisteredWindow> window = Register(&memory, WindowAccess::kReadWrite);
  const RemoteFunction echo = Find(*client_, "echo");
  served_->worker->Drain();
  const absl::Status status =
      client_->Invoke(echo, {*window, 0, kPiece}, WithOutput({*window, kPiece, kPiece})).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(calls(), 0u);
  served_.reset();
  // The session has ended, and there is nobody to tell.
  window.reset();
}

TEST_P(BulkTest, AWindowMayOutliveItsClient) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  std::vector<std::byte> memory(kPiece);
  std::optional<RegisteredWindow> window = Register(&memory, WindowAccess::kWrite);
  client_.reset();
  window.reset();
}

}  // namespace
}  // namespace invoker
