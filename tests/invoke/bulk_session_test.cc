// Bulk calls turn by turn: what a client can claim that does not use the library, what happens
// between the turns, and how a call ends that is not let run to its end.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "src/invoke/wire/sequence_window.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kPiece = 1 << 20;
constexpr uint32_t kCapacity = 512;

class BulkSessionTest : public testing::TestWithParam<Way> {
 protected:
  explicit BulkSessionTest(const SessionPair::Options& options = {})
      : pair_(GetParam(), options), memory_(32 * kPiece) {
    for (size_t i = 0; i < memory_.size(); ++i) {
      memory_[i] = static_cast<std::byte>((i * 0x9e3779b1u) >> 11);
    }
    original_ = memory_;
    both_ = Register(transport::RegionUse::kRemoteSourceSink, true, true);
  }
  ~BulkSessionTest() override {
    for (transport::MemoryRegion& region : regions_) std::move(region).Close();
  }

  uint16_t Register(transport::RegionUse use, bool readable, bool writable) {
    auto region = pair_.client_reactor().Register(
        transport::HostBuffer::Borrow(memory_.data(), memory_.size()), use);
    EXPECT_TRUE(region.ok()) << region.status();
    const absl::StatusOr<uint16_t> number = windows().Register(
        {region->remote_base(), region->size(), region->key()}, readable, writable);
    EXPECT_TRUE(number.ok()) << number.status();
    regions_.push_back(*std::move(region));
    return *number;
  }

  SessionWindows& windows() { return *pair_.executor().windows(); }
  // The executor does so, in one go.
  std::shared_ptr<ClientWindow> Forget(uint16_t number) {
    std::shared_ptr<ClientWindow> window = windows().Revoke(number);
    if (window != nullptr && window->AwaitQuiet(absl::ZeroDuration())) windows().Remove(number);
    return window;
  }

  // A request with whatever the payload is.
  Call* StartRaw(const std::vector<std::byte>& payload, uint32_t capacity = kCapacity,
                 int64_t deadline_ns = 0, MessageKind kind = MessageKind::kRequest) {
    ClientSession::Request request;
    request.kind = kind;
    request.function_id = kEcho;
    request.input = payload;
    request.response_capacity = capacity;
    request.deadline_ns = deadline_ns;
    request.flags = kBulk;
    Call* call = pair_.client().Start(request);
    EXPECT_NE(call, nullptr);
    pair_.client().Flush();
    return call;
  }
  static std::vector<std::byte> Payload(const BulkDescriptor& descriptor, size_t more = 0) {
    std::vector<std::byte> payload(kBulkDescriptorBytes + more);
    EncodeBulkDescriptor(descriptor, payload.data());
    return payload;
  }
  Call* Start(const BulkDescriptor& descriptor, int64_t deadline_ns = 0) {
    return StartRaw(Payload(descriptor), kCapacity, deadline_ns);
  }
  // An echo of the first half of the memory into the second.
  BulkDescriptor Halves() const {
    return {both_, both_, 0, memory_.size() / 2, memory_.size() / 2, memory_.size() / 2};
  }

  // What the call's end is, and the call given back.
  absl::Status End(Call* call) {
    EXPECT_TRUE(pair_.UntilEnded(call));
    const absl::Status status = call->status;
    pair_.client().Finish(call, false);
    return status;
  }
  void ExpectRefused(Call* call, absl::string_view words) {
    const uint64_t refused = pair_.executor().counters().refused;
    const uint64_t counted = pair_.executor().counters().dropped.invalid_request;
    const absl::Status status = End(call);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
    EXPECT_EQ(GetCallFate(status), CallFate::kNotExecuted);
    EXPECT_EQ(pair_.executor().counters().refused, refused + 1);
    EXPECT_EQ(pair_.executor().counters().dropped.invalid_request, counted + 1);
    EXPECT_EQ(pair_.functions.calls, 0u);
  }
  void ExpectWorks() {
    memory_ = original_;
    const uint64_t half = memory_.size() / 2;
    const absl::Status status = End(Start(Halves()));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(memcmp(memory_.data() + half, original_.data(), half), 0);
    EXPECT_EQ(pair_.bulk_budget->used(), 0u);
    EXPECT_TRUE(pair_.executor().failure().ok()) << pair_.executor().failure();
  }

  SessionPair pair_;
  std::vector<std::byte> memory_;
  std::vector<std::byte> original_;
  std::vector<transport::MemoryRegion> regions_;
  uint16_t both_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Ways, BulkSessionTest, testing::ValuesIn(kWays), NameOfWay);

class NobodysOperations final : public transport::OperationOwner {
 public:
  void OnOperationFailed(const transport::Operation&, const absl::Status&) override {}
};

// The same of responses, where nothing can be posted.
TEST_P(BulkSessionTest, NoMoreResponsesGatherThanAClientCanHaveUnderWay) {
  transport::ReactorOptions one;
  one.operations = 1;
  const std::unique_ptr<transport::Reactor> from = OpenReactor(GetParam().provider, one);
  // Which nobody polls.
  const std::unique_ptr<transport::Reactor> to = OpenReactor(GetParam().provider);
  const WindowGeometry geometry = pair_.geometry();
  auto staging = from->Register(*transport::HostBuffer::Allocate(geometry.window_bytes()),
                                transport::RegionUse::kSource);
  auto target = to->Register(*transport::HostBuffer::Allocate(geometry.window_bytes()),
                             transport::RegionUse::kRemoteTarget);
  ASSERT_TRUE(staging.ok() && target.ok());
  const auto peer = from->peers().Insert(to->address());
  ASSERT_TRUE(peer.ok()) << peer.status();
  NobodysOperations owner;
  {
    const transport::RemoteWindow window = {(*peer)->address, target->remote_base(), target->size(),
                                            target->key()};
    MessageBatch batch(from.get(), &*staging, window, geometry, /*session=*/1,
                       transport::GetNotifier(GetParam().notification, from->profile().send_order),
                       &owner);
    // Some may leave, on a fabric that takes them for a peer that does not look.
    constexpr int kMost = 100'000;
    int added = 0;
    while (!batch.overflowed() && added < kMost) {
      batch.Add(MessageKind::kResponse, 4 * (++added % 2), kHeaderBytes);
    }
    EXPECT_TRUE(batch.overflowed());
    EXPECT_GT(added, static_cast<int>(SequenceWindow::kWidth));
    // What is lost is not covered up by what can leave later.
    EXPECT_FALSE(batch.Flush());
    EXPECT_TRUE(batch.pending());
  }
  from->RetireAllOf(&owner);
  from->peers().Release(*peer);
}

class SleepingClientTest : public BulkSessionTest {
 protected:
  SleepingClientTest() : BulkSessionTest(ShowsSleep()) {
    // The fabric may refuse what is posted to a peer first.
    pair_.CheckEcho("connect");
  }
  static SessionPair::Options ShowsSleep() {
    SessionPair::Options options;
    options.client_reactor.shows_sleep = true;
    return options;
  }
  // Whether the executor wakes the client by itself.
  bool IsWoken() {
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    while (pair_.ClientShowsSleep() && transport::MonotonicNs() < give_up) pair_.PollExecutor();
    return !pair_.ClientShowsSleep();
  }
};

// A fabric that wakes nobody, and requests that leave at once.
INSTANTIATE_TEST_SUITE_P(Ways, SleepingClientTest, testing::Values(kWays[2]), NameOfWay);

TEST_P(SleepingClientTest, AResponseWakesIt) {
  ASSERT_TRUE(pair_.PutClientToSleep());
  Call* const call = pair_.StartEcho("to a sleeper", 64);
  pair_.client().Flush();
  EXPECT_TRUE(IsWoken());
  ASSERT_TRUE(pair_.UntilEnded(call));
  EXPECT_EQ(pair_.Text(*call), "to a sleeper");
  pair_.client().Finish(call, false);
}

TEST_P(SleepingClientTest, WhatIsPostedLaterWakesIt) {
  ASSERT_TRUE(pair_.PutClientToSleep());
  pair_.executor().OnPostedLater();
  EXPECT_FALSE(pair_.ClientShowsSleep());
}

// It has to take part in them on some fabrics, more than once.
TEST_P(SleepingClientTest, TransfersWakeIt) {
  ASSERT_TRUE(pair_.PutClientToSleep());
  const uint64_t calls = pair_.functions.calls;
  Call* const call = Start(Halves());
  ASSERT_TRUE(IsWoken());
  pair_.PollClient();
  ASSERT_EQ(pair_.functions.calls, calls);
  ASSERT_TRUE(pair_.PutClientToSleep());
  ASSERT_TRUE(IsWoken());
  EXPECT_TRUE(End(call).ok());
  EXPECT_EQ(memcmp(memory_.data() + memory_.size() / 2, original_.data(), memory_.size() / 2), 0);
}

// A client that is not this library's may use the same cells for all of them.
TEST_P(BulkSessionTest, NoMoreCallsAreTakenThanAClientCanHaveUnderWay) {
  transport::Reactor* const reactor = &pair_.client_reactor();
  FunctionRegistry registry;
  ExecutorWatch watch;
  FunctionRunner functions(&registry, nullptr, &watch, /*epoch=*/7, reactor);
  SessionUsage usage(nullptr, nullptr);
  ResponseWriter::Parts parts;
  parts.reactor = reactor;
  auto staging =
      reactor->Register(*transport::HostBuffer::Allocate(4096), transport::RegionUse::kSource);
  ASSERT_TRUE(staging.ok()) << staging.status();
  ResponseWriter responses(parts, *std::move(staging), *WindowGeometry::Make(4096),
                           /*owner=*/nullptr, &usage, nullptr);
  SessionDeferrals deferrals(&functions, &usage, [] {});
  BulkSession session(reactor, std::make_shared<BulkBudget>(), 0, &functions, &responses, &usage,
                      &deferrals, /*store=*/nullptr);
  const std::vector<std::byte> payload = Payload(BulkDescriptor());
  RequestHeader header;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  const auto start = [&] {
    ++header.sequence;
    return session.Start(header, payload.data(), nullptr, transport::MonotonicNs());
  };
  for (uint64_t i = 0; i < SequenceWindow::kWidth; ++i) ASSERT_TRUE(start());
  for (uint16_t i = 0; i < 3; ++i) {
    // Responses that lie side by side wait for one another.
    header.response_cell = i;
    EXPECT_FALSE(start());
    ResponseHeader response;
    ASSERT_EQ(
        DecodeResponse(HeaderSnapshot::Take(responses.PayloadOf(header).data() - kHeaderBytes),
                       &response),
        WireError::kNone);
    EXPECT_EQ(response.status, StatusCode::kNoMemory);
    EXPECT_EQ(usage.counters().refused, i + 1u);
    EXPECT_EQ(usage.counters().dropped.too_many_calls, i + 1u);
    EXPECT_FALSE(session.Has(header.sequence));
  }
}

TEST_P(BulkSessionTest, WindowsThatAreNotThereAreRefusedAndCounted) {
  const uint64_t size = memory_.size();
  const uint16_t unknown = static_cast<uint16_t>(both_ + 1);
  ExpectRefused(Start({unknown, both_, 0, 1, 0, 1}), "no window");
  ExpectRefused(Start({both_, 0xffff, 0, 1, 0, 1}), "no window");
  for (const auto& [offset, length] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, size + 1},
                                                  {size, 1},
                                                  {size + 1, 0},
                                                  {1, size},
                                                  {~uint64_t{0}, 1},
                                                  {1, ~uint64_t{0}},
                                                  {~uint64_t{0}, ~uint64_t{0}}}) {
    ExpectRefused(Start({both_, both_, offset, length, 0, 1}), "do not lie in window");
    ExpectRefused(Start({both_, both_, 0, 1, offset, length}), "do not lie in window");
  }
  ExpectWorks();
}

TEST_P(BulkSessionTest, AccessThatWasNotGivenIsRefused) {
  const uint16_t source = Register(transport::RegionUse::kRemoteSource, true, false);
  const uint16_t sink = Register(transport::RegionUse::kRemoteSink, false, true);
  ExpectRefused(Start({sink, sink, 0, 1, 0, 1}), "to be read");
  ExpectRefused(Start({source, source, 0, 1, 0, 1}), "to be written");
  EXPECT_TRUE(End(Start({source, sink, 0, 1, 0, 1})).ok());
}

TEST_P(BulkSessionTest, RequestsThatMakeNoSenseAreRefused) {
  ExpectRefused(StartRaw(std::vector<std::byte>(kBulkDescriptorBytes - 1)), "descriptor");
  ExpectRefused(StartRaw({}), "descriptor");
  std::vector<std::byte> reserved = Payload({both_, both_, 0, 1, 0, 1});
  reserved[5] = std::byte{1};
  ExpectRefused(StartRaw(reserved), "descriptor");
  // A place in no window.
  std::vector<std::byte> nowhere = Payload({0, both_, 0, 0, 0, 1});
  nowhere[8] = std::byte{1};
  ExpectRefused(StartRaw(nowhere), "descriptor");
  ExpectRefused(StartRaw(Payload({both_, both_, 0, 1, 0, 1}, 10)), "two inputs");
  // Only so many of the words fit.
  ExpectRefused(StartRaw(Payload({both_, both_, 0, 1, 0, 1}), kBulkResultBytes - 1), "a respo");
  ExpectRefused(StartRaw(Payload({both_, both_, 0, 1, 0, 1}), kCapacity, 0, MessageKind::kProbe),
                "descriptor");
  ExpectWorks();
}

TEST_P(BulkSessionTest, WindowsThatCannotBeAreNotRegistered) {
  for (const bootstrap::WindowDescriptor& window : std::vector<bootstrap::WindowDescriptor>{
           {0x1000, 0, 1}, {~uint64_t{0} - 10, 100, 1}, {1, ~uint64_t{0}, 1}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(windows().Register(window, true, true).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(windows().Register({0x1000, 100, 1}, false, false).status()));
}

TEST_P(BulkSessionTest, OtherCallsAreServedInBetween) {
  Call* const bulk = Start(Halves());
  Call* const echo = pair_.StartEcho("meanwhile", 16);
  pair_.client().Flush();
  ASSERT_TRUE(pair_.Until([this] { return pair_.functions.calls == 1; }));
  // It has run while the other's input was being read: after that, half of this is given back.
  EXPECT_EQ(pair_.bulk_budget->used(), memory_.size());
  EXPECT_TRUE(End(echo).ok());
  EXPECT_TRUE(End(bulk).ok());
  ExpectWorks();
}

// The client takes no part, so that nothing can be read, until the deadline has passed at the
// executor, which counts from when it has read the request.
TEST_P(BulkSessionTest, ADeadlineDuringTheTransferEndsItThere) {
  constexpr int64_t kTimeoutNs = 20'000'000;
  pair_.CheckEcho("before");
  const uint64_t calls = pair_.functions.calls;
  Call* const call = Start(Halves(), transport::MonotonicNs() + kTimeoutNs);
  ASSERT_TRUE(pair_.Until([&] { return pair_.bulk_budget->used() > 0; }));
  const int64_t past_ns = transport::MonotonicNs() + kTimeoutNs;
  while (transport::MonotonicNs() <= past_ns) pair_.PollExecutor();
  const absl::Status status = End(call);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  // The cells come back with the response, which says that nothing of the call is under way.
  EXPECT_TRUE(pair_.Until([this] { return pair_.AllFree(); }));
  EXPECT_EQ(pair_.bulk_budget->used(), 0u);
  EXPECT_EQ(pair_.functions.calls, calls);
  ExpectWorks();
}

TEST_P(BulkSessionTest, ThereAreSoManyWindowsAndNoMore) {
  const bootstrap::WindowDescriptor window = {1 << 20, 4096, 7};
  std::vector<uint16_t> numbers;
  absl::Status refused;
  while (refused.ok() && numbers.size() < 10'000) {
    const absl::StatusOr<uint16_t> number = windows().Register(window, true, true);
    refused = number.status();
    if (number.ok()) numbers.push_back(*number);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  // And one that has been there since the beginning.
  EXPECT_EQ(numbers.size() + 1, 2 * SequenceWindow::kWidth);
  // Each that goes makes room for one.
  ASSERT_NE(Forget(numbers.front()), nullptr);
  EXPECT_TRUE(windows().Register(window, true, true).ok());
  EXPECT_FALSE(windows().Register(window, true, true).ok());
  ExpectWorks();
}

TEST_P(BulkSessionTest, ForgettingAWindowStopsItsCallsAndWaitsForTheirTransfers) {
  Call* const call = Start(Halves());
  ASSERT_TRUE(pair_.Until([&] { return pair_.bulk_budget->used() > 0; }));
  const std::shared_ptr<ClientWindow> window = windows().Revoke(both_);
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(windows().Find(both_), nullptr);
  // A second request, while transfers are under way, gets the same answer.
  EXPECT_EQ(windows().Revoke(both_), window);
  const absl::Status status = End(call);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "forgotten")) << status;
  EXPECT_TRUE(window->AwaitQuiet(absl::ZeroDuration()));
  EXPECT_EQ(pair_.bulk_budget->used(), 0u);
  EXPECT_EQ(pair_.functions.calls, 0u);
  ExpectRefused(Start({both_, 0, 0, 1, 0, 0}), "no window");
  // Its number is nobody's.
  windows().Remove(both_);
  EXPECT_EQ(windows().Revoke(both_), nullptr);
  ExpectRefused(Start({both_, 0, 0, 1, 0, 0}), "no window");
  both_ = Register(transport::RegionUse::kRemoteSourceSink, true, true);
  ExpectWorks();
}

// By another thread, while the executor's may be inside a function.
TEST_P(BulkSessionTest, NoTransferBeginsOnceTheWindowIsRevoked) {
  std::fill(memory_.begin() + memory_.size() / 2, memory_.end(), std::byte{0x5A});
  const std::vector<std::byte> before = memory_;
  Call* const call = Start(Halves());
  std::shared_ptr<ClientWindow> window;
  pair_.functions.in_echo = [&](const invoker_call&) { window = windows().Revoke(both_); };
  const absl::Status status = End(call);
  pair_.functions.in_echo = nullptr;
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(GetCallFate(status), CallFate::kExecuted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "forgotten")) << status;
  EXPECT_EQ(pair_.functions.calls, 1u);
  EXPECT_TRUE(window->AwaitQuiet(absl::ZeroDuration()));
  EXPECT_EQ(memory_, before);
  EXPECT_EQ(pair_.executor().failure(), absl::OkStatus());
}

// What has been read is needed no more.
TEST_P(BulkSessionTest, AnInputThatIsTakenBackAfterItsFunctionStopsNothing) {
  const uint16_t source = Register(transport::RegionUse::kRemoteSource, true, false);
  const uint16_t sink = Register(transport::RegionUse::kRemoteSink, false, true);
  const uint64_t half = memory_.size() / 2;
  std::shared_ptr<ClientWindow> window;
  pair_.functions.in_echo = [&](const invoker_call&) { window = windows().Revoke(source); };
  EXPECT_EQ(End(Start({source, sink, 0, half, half, half})), absl::OkStatus());
  pair_.functions.in_echo = nullptr;
  EXPECT_TRUE(window->AwaitQuiet(absl::ZeroDuration()));
  EXPECT_EQ(memcmp(memory_.data() + half, original_.data(), half), 0);
  ExpectWorks();
}

TEST_P(BulkSessionTest, AWorkerThatDrainsStopsWhatHasNotRun) {
  Call* const call = Start(Halves());
  ASSERT_TRUE(pair_.Until([&] { return pair_.bulk_budget->used() > 0; }));
  pair_.draining = true;
  const absl::Status status = End(call);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(GetCallFate(status), CallFate::kNotExecuted);
  EXPECT_EQ(pair_.functions.calls, 0u);
  pair_.draining = false;
  ExpectWorks();
}

TEST_P(BulkSessionTest, MemoryThatTransfersMayTouchStaysCountedAfterTheSession) {
  Start(Halves());
  ASSERT_TRUE(pair_.Until([&] { return pair_.bulk_budget->used() > 0; }));
  const std::shared_ptr<ClientWindow> window = Forget(both_);
  ASSERT_NE(window, nullptr);
  // Usually they are under way; no fabric promises it.
  const bool under_way = pair_.executor_reactor().operations().outstanding() > 0;
  pair_.EndExecutor();
  EXPECT_EQ(window->AwaitQuiet(absl::ZeroDuration()), !under_way);
  EXPECT_EQ(pair_.bulk_budget->used(), under_way ? memory_.size() : 0u);
  // What was under way ends, and hurts nobody.
  EXPECT_TRUE(
      pair_.Until([this] { return pair_.executor_reactor().operations().outstanding() == 0; }));
}

class OneSlotTest : public BulkSessionTest {
 protected:
  OneSlotTest() : BulkSessionTest(OneSlot()) {}

 private:
  static SessionPair::Options OneSlot() {
    SessionPair::Options options;
    options.executor_reactor.operations = 1;
    return options;
  }
};

// Without a client that drives, writes with immediate arrive, and transfers do not end.
INSTANTIATE_TEST_SUITE_P(Ways, OneSlotTest, testing::ValuesIn({kWays[0], kWays[2]}), NameOfWay);

// It has not been lost on the way: it has not been on the way.
TEST_P(OneSlotTest, AResponseThatTheFabricHasNotTakenYetIsInHand) {
  Call* const bulk = Start(Halves());
  ASSERT_TRUE(
      pair_.Until([this] { return pair_.executor_reactor().operations().outstanding() == 1; }));
  const uint64_t calls = pair_.functions.calls;
  const std::string text(20'000, 't');
  Call* const echo = pair_.StartEcho(text, static_cast<uint32_t>(text.size()));
  pair_.client().Flush();
  const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
  while (pair_.functions.calls == calls && transport::MonotonicNs() < give_up) {
    pair_.PollExecutor();
  }
  ASSERT_EQ(pair_.functions.calls, calls + 1);
  ASSERT_TRUE(pair_.executor().responses().pending());
  EXPECT_EQ(pair_.executor().FindRequest(echo->sequence), bootstrap::RequestState::kInHand);
  const uint64_t sequence = echo->sequence;
  EXPECT_EQ(End(echo), absl::OkStatus());
  EXPECT_EQ(pair_.executor().FindRequest(sequence), bootstrap::RequestState::kAnswered);
  EXPECT_EQ(End(bulk), absl::OkStatus());
}

// What the worker was told does not have to be true.
TEST_P(BulkSessionTest, AWindowThatIsNoMemoryOfTheClientsEndsTheCallOrTheSession) {
  if (RefusalsUnseen(transport::FindRow(GetParam().provider))) {
    GTEST_SKIP() << "limit: with this libfabric, a read that is refused looks as if it were done";
  }
  const absl::StatusOr<uint16_t> registered = windows().Register(
      {regions_[0].remote_base(), memory_.size(), regions_[0].key() ^ 0x5555}, true, true);
  ASSERT_TRUE(registered.ok()) << registered.status();
  const uint16_t number = *registered;
  pair_.bulk_budget->stall_ns = 50'000'000;
  Call* const call = Start({number, number, 0, kPiece, kPiece, kPiece});
  // Some fabrics fail the read, and perhaps the connection; some never end it.
  ASSERT_TRUE(pair_.Until([&] { return call->ended() || !pair_.executor().failure().ok(); }));
  EXPECT_FALSE(call->ended() && call->status.ok());
  EXPECT_EQ(pair_.functions.calls, 0u);
  EXPECT_EQ(memory_, original_);
  pair_.EndExecutor();
}

// And whatever of the executor's memory nothing may touch any more.
TEST_P(BulkSessionTest, AClientThatTakesNoPartLosesItsSession) {
  pair_.bulk_budget->stall_ns = 20'000'000;
  Call* const call = Start(Halves());
  ASSERT_TRUE(pair_.Until([&] { return pair_.bulk_budget->used() > 0; }));
  while (pair_.executor().failure().ok()) pair_.PollExecutor();
  EXPECT_FALSE(call->ended());
  const bool under_way = pair_.executor_reactor().operations().outstanding() > 0;
  pair_.EndExecutor();
  EXPECT_EQ(pair_.bulk_budget->used(), under_way ? memory_.size() : 0u);
}

}  // namespace
}  // namespace invoker
