#include "src/transport/self_test/self_test_observe.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "src/base/start_thread.h"
#include "src/transport/reactor/remote_counter.h"
#include "src/transport/self_test/method_trial.h"

namespace invoker::transport {
namespace {

constexpr uint64_t kSmall = 64;

// All bytes differ, so that neither a cut nor a swap looks right.
constexpr uint64_t kWideImmediate = 0x8f7e6d5c4b3a2918;

constexpr uint32_t kSendsBehindWrites = 16;
constexpr uint64_t kOrderedBytes = 8192;

// An arrival that a sleep this long did not notice did not wake it.
constexpr absl::Duration kSleep = absl::Milliseconds(45);
constexpr int kSleeps = 3;

constexpr uint32_t kAdditions = 16;

constexpr uint32_t kRoundTrips = 100;
constexpr int64_t kRoundTripsNs = 30'000'000;

size_t BytesThatArrived(uint64_t got, uint64_t sent) {
  if (got == sent) return 8;
  return static_cast<uint32_t>(got) == static_cast<uint32_t>(sent) ? 4 : 0;
}

}  // namespace

void ObserveImmediateEntry(SelfTestPair* pair, int64_t deadline_ns, SelfTestResult* result) {
  SelfTestSide& from = pair->side(0);
  SelfTestSide& target = pair->side(1);
  const size_t claimed = std::min<size_t>(from.reactor().info().domain_attr->cq_data_size, 8);
  const uint64_t sent =
      claimed >= 8 ? kWideImmediate : kWideImmediate & ((uint64_t{1} << (8 * claimed)) - 1);
  // The reactors have nothing under way, so every completion that comes is this write's.
  fi_context2 context = {};
  bool posted = false;
  bool completed = false;
  while (MonotonicNs() < deadline_ns && !(completed && result->entry_seen)) {
    if (!posted) {
      posted = PostWriteImm(from.reactor().endpoint().get(), from.source().data(), kSmall,
                            from.source().descriptor(), sent, from.remote().peer,
                            from.remote().AddressOf(0), from.remote().key, &context) == 0;
      if (posted) ++from.sent;
    }
    fi_cq_data_entry entry = {};
    if (fi_cq_read(from.reactor().completion_queue().get(), &entry, 1) == 1 &&
        entry.op_context == &context) {
      completed = true;
    }
    entry = {};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    if (fi_cq_readfrom(target.reactor().completion_queue().get(), &entry, 1, &source) != 1) {
      continue;
    }
    if ((entry.flags & FI_RECV) != 0 || (entry.flags & FI_REMOTE_CQ_DATA) == 0) continue;
    result->entry_seen = true;
    ++target.received;
    // No more than was claimed is the fabric's to keep.
    result->immediate_bytes = std::min(claimed, BytesThatArrived(entry.data, sent));
    result->entry_length_right = entry.len == kSmall;
    result->entry_names_source = source != FI_ADDR_NOTAVAIL && source != FI_ADDR_UNSPEC;
  }
}

void ObserveSendOrder(SelfTestPair* pair, int64_t deadline_ns, SelfTestResult* result) {
  const Notifier* notifier = GetNotifier(Notification::kSendAfterWrite, SendOrder::kPipelined);
  SelfTestSide& from = pair->side(0);
  SelfTestSide& target = pair->side(1);
  const auto place = [&target](uint32_t index) {
    return target.window().data() + index * kOrderedBytes;
  };
  memset(place(0), 0, kSendsBehindWrites * kOrderedBytes);
  const uint32_t first = pair->NextToken();
  uint32_t came = 0;
  target.on_token = [&](uint32_t token) {
    const uint32_t index = token - first;
    if (index >= kSendsBehindWrites) return;
    ++came;
    if (!HasPattern(place(index), kOrderedBytes, token)) ++result->sends_overtook;
  };
  for (uint32_t i = 0; i < kSendsBehindWrites; ++i) {
    const uint32_t token = i == 0 ? first : pair->NextToken();
    FillWithPattern(from.source().data() + i * kOrderedBytes, kOrderedBytes, token);
    if (!from.Post(notifier, i * kOrderedBytes, kOrderedBytes, token)) break;
    ++result->sends_tried;
  }
  pair->PollUntil([&] { return came == result->sends_tried && from.idle(); }, deadline_ns);
  target.on_token = nullptr;
  // Only what came is known.
  result->sends_tried = came;
}

void ObserveAtomics(SelfTestPair* pair, int64_t deadline_ns, SelfTestResult* result) {
  SelfTestSide& from = pair->side(0);
  SelfTestSide& owner = pair->side(1);
  const absl::StatusOr<CounterArray> counters = CounterArray::Open(&owner.reactor(), 1);
  result->atomics = AtomicsSeen::kFailed;
  if (!counters.ok()) return;
  const RemoteCounters remote = {from.remote().peer, counters->descriptor()};
  uint64_t sum = 0;
  for (uint64_t i = 1; i <= kAdditions; ++i) {
    // Large enough to need all 64 bits, so that a narrower or a wrong addition shows.
    const uint64_t value = i << 58 | i;
    if (!from.reactor().PostAtomicAdd(remote, 0, value, &from, i)) return;
    sum += value;
  }
  const auto added = [&] { return counters->Read(0) == sum && from.idle(); };
  if (!pair->PollUntil(added, deadline_ns)) return;
  result->atomics = counters->descriptor().method == AddMethod::kNative ? AtomicsSeen::kNative
                                                                        : AtomicsSeen::kMessage;
}

void ObserveWait(SelfTestPair* pair, const Notifier* notifier, int64_t deadline_ns,
                 SelfTestResult* result) {
  SelfTestSide& from = pair->side(0);
  SelfTestSide& target = pair->side(1);
  bool came = false;
  uint32_t expected = 0;
  target.on_token = [&](uint32_t token) { came = came || token == expected; };
  for (int attempt = 0; attempt < kSleeps && !result->wait_woke; ++attempt) {
    came = false;
    expected = pair->NextToken();
    const int64_t posted_ns = MonotonicNs();
    if (!from.Post(notifier, 0, kSmall, expected)) break;
    // The sender's part is done by its own turns; the target looks only when its sleep has ended.
    bool in_time = true;
    while (!came && MonotonicNs() < deadline_ns && from.failure().ok()) {
      from.reactor().Poll();
      const int64_t asleep_ns = MonotonicNs();
      target.reactor().Wait(kSleep);
      in_time = in_time && MonotonicNs() - asleep_ns < absl::ToInt64Nanoseconds(kSleep);
      target.reactor().Poll();
    }
    if (!came) break;
    result->wait_woke = in_time;
    result->wake_us = (MonotonicNs() - posted_ns) / 1e3;
  }
  target.on_token = nullptr;
}

void ObserveRoundTrips(SelfTestPair* pair, const Notifier* notifier, int64_t deadline_ns,
                       SelfTestResult* result) {
  const int64_t start_ns = MonotonicNs();
  const int64_t stop_ns = std::min(deadline_ns, start_ns + kRoundTripsNs);
  std::vector<int64_t> times_ns;
  times_ns.reserve(kRoundTrips);
  uint32_t expected = 0;
  bool back = false;
  bool answered = true;
  pair->side(1).on_token = [&](uint32_t token) {
    if (token == expected) answered = pair->side(1).Post(notifier, 0, kSmall, token);
  };
  pair->side(0).on_token = [&](uint32_t token) { back = back || token == expected; };
  while (times_ns.size() < kRoundTrips && MonotonicNs() < stop_ns) {
    expected = pair->NextToken();
    back = false;
    const int64_t posted_ns = MonotonicNs();
    if (!pair->side(0).Post(notifier, 0, kSmall, expected)) break;
    if (!pair->PollUntil([&] { return back || !answered; }, deadline_ns) || !back) break;
    times_ns.push_back(MonotonicNs() - posted_ns);
  }
  pair->side(0).on_token = nullptr;
  pair->side(1).on_token = nullptr;
  if (times_ns.empty()) return;
  const auto middle = times_ns.begin() + times_ns.size() / 2;
  std::nth_element(times_ns.begin(), middle, times_ns.end());
  result->round_trips = static_cast<uint32_t>(times_ns.size());
  result->round_trip_us = *middle / 1e3;
}

void ObserveMethods(SelfTestPair* pair, int64_t deadline_ns, SelfTestResult* result) {
  const Profile& profile = pair->profile();
  if (!profile.may_send_pieces) return;
  const Notifier* notifier = GetNotifier(Notification::kWriteImm, profile.send_order);
  SelfTestSide& from = pair->side(0);
  SelfTestSide& echo = pair->side(1);
  MethodTrial trial(profile.inject_bytes, SelfTestPair::kWindowBytes / 4, MonotonicNs());
  // The message, for the other thread, is the token itself: its length, and in which way it goes.
  echo.on_token = [&echo, notifier](uint32_t token) {
    const uint64_t bytes = token >> 1;
    echo.set_pieces_up_to((token & 1) != 0 ? bytes : 0);
    // Nothing else of its own is under way, so that there is a slot.
    echo.Post(notifier, 0, bytes, token);
  };
  bool back = false;
  from.on_token = [&back](uint32_t) { back = true; };
  std::atomic<bool> stop{false};
  std::thread thread;
  const auto echoes = [&echo, &stop] {
    while (!stop.load(std::memory_order_relaxed)) {
      if (echo.reactor().Poll() == 0) sched_yield();
    }
  };
  if (StartThread(&thread, echoes).ok()) {
    while (const auto round = trial.Next(MonotonicNs())) {
      back = false;
      from.set_pieces_up_to(round->pieces ? round->bytes : 0);
      const auto token = static_cast<uint32_t>(round->bytes << 1 | (round->pieces ? 1 : 0));
      const int64_t posted_ns = MonotonicNs();
      if (!from.Post(notifier, 0, round->bytes, token)) break;
      while (!back && from.failure().ok() && MonotonicNs() < deadline_ns) from.reactor().Poll();
      if (!back) break;
      trial.Add(MonotonicNs() - posted_ns);
    }
    stop.store(true, std::memory_order_relaxed);
    thread.join();
  }
  for (SelfTestSide* side : {&from, &echo}) {
    side->on_token = nullptr;
    side->set_pieces_up_to(0);
  }
  result->pieces_up_to = trial.pieces_up_to();
  result->methods = trial.times();
}

}  // namespace invoker::transport
