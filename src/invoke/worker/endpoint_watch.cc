#include "src/invoke/worker/endpoint_watch.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/base/start_thread.h"
#include "src/transport/discovery/discovery.h"

namespace invoker {
namespace {

// How long an executor is waited for that may be running a function.
constexpr absl::Duration kTaskLimit = absl::Seconds(1);

// Clients can cause doubts as often as they like.
constexpr absl::Duration kBetweenDoubts = absl::Seconds(5);

// Between two looks whether a replaced endpoint can be closed.
constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

// A step of a wait, and the most of its time that counts.
constexpr absl::Duration kStep = absl::Milliseconds(1);
constexpr int64_t kMostStepNs = 50'000'000;

// An executor that has not polled often enough by so many times the patience is left in peace.
constexpr int kMostPatiences = 6;

// More than an endpoint of any provider takes, and a connection to it.
constexpr int kForACheck = 32;

// Lets the process have as many descriptors as it could ask for, while this lives, if few are left.
// A dead endpoint may have taken them all: a listener that goes on accepts every connection and
// closes none. So the check still finds some.
class MoreDescriptors {
 public:
  MoreDescriptors() {
    if (AreLeft(kForACheck)) return;
    if (getrlimit(RLIMIT_NOFILE, &before_) != 0) return;
    rlimit more = before_;
    more.rlim_cur = more.rlim_max;
    raised_ = more.rlim_cur != before_.rlim_cur && setrlimit(RLIMIT_NOFILE, &more) == 0;
  }
  ~MoreDescriptors() {
    if (raised_) setrlimit(RLIMIT_NOFILE, &before_);
  }
  MoreDescriptors(const MoreDescriptors&) = delete;
  MoreDescriptors& operator=(const MoreDescriptors&) = delete;

  // Whether there are so many now.
  static bool AreLeft(int count) {
    if (count == 0) return true;
    const int descriptor = eventfd(0, EFD_CLOEXEC);
    if (descriptor < 0) return false;
    const bool are_left = AreLeft(count - 1);
    close(descriptor);
    return are_left;
  }

 private:
  rlimit before_ = {};
  bool raised_ = false;
};

}  // namespace

absl::Status EndpointWatch::Start(absl::Span<const std::unique_ptr<Executor>> executors,
                                  std::function<void(absl::string_view note)> on_note) {
  if (options_.period == absl::InfiniteDuration()) return absl::OkStatus();
  executors_ = executors;
  on_note_ = std::move(on_note);
  return transport::StartThread(&thread_, [this] { ThreadMain(); });
}

void EndpointWatch::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void EndpointWatch::Doubt() {
  absl::MutexLock lock(&mutex_);
  doubted_ = true;
}

bool EndpointWatch::stopping() {
  absl::MutexLock lock(&mutex_);
  return stop_;
}

void EndpointWatch::ThreadMain() {
  absl::Time next_round = absl::Now() + options_.period;
  absl::Time doubts_from = absl::InfinitePast();
  while (true) {
    bool doubted = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto woken = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_ || (doubted_ && absl::Now() >= doubts_from);
      };
      absl::Time until = has_retired_ ? absl::Now() + kBetweenLooks : next_round;
      if (doubted_) until = std::min(until, doubts_from);
      mutex_.AwaitWithDeadline(absl::Condition(&woken), until);
      if (stop_) return;
      doubted = woken();
      if (doubted) doubted_ = false;
    }
    if (has_retired_) ReleaseReplaced();
    if (!doubted && absl::Now() < next_round) continue;
    Round(doubted);
    next_round = absl::Now() + options_.period;
    doubts_from = absl::Now() + std::min(kBetweenDoubts, options_.period);
  }
}

void EndpointWatch::Round(bool doubted) {
  for (const std::unique_ptr<Executor>& executor : executors_) {
    for (const std::shared_ptr<ExecutorEndpoint>& endpoint : executor->OpenEndpoints()) {
      const transport::Profile& profile = endpoint->profile();
      if (profile.peers_share_locks || (!doubted && !profile.peers_connect)) continue;
      if (stopping()) return;
      Check(executor.get(), endpoint);
    }
  }
}

void EndpointWatch::Check(Executor* executor, const std::shared_ptr<ExecutorEndpoint>& endpoint) {
  const MoreDescriptors more;
  Verdict verdict = Verdict::kUnknown;
  for (int i = 0; i < 2; ++i) {
    verdict = Ask(executor, endpoint);
    if (verdict != Verdict::kSilent && verdict != Verdict::kSlow) return;
  }
  const bool dead = verdict == Verdict::kSilent;
  const absl::Status reason = absl::UnavailableError(
      absl::StrCat("it answers no new peer: twice a message from a new endpoint of this process "
                   "did not arrive within ",
                   absl::FormatDuration(options_.patience), ", though the executor looked for it"));
  const std::optional<std::string> note =
      executor->ReplaceSilent(endpoint, reason, dead, kTaskLimit);
  has_retired_ = true;
  if (note.has_value() && !note->empty()) on_note_(*note);
}

EndpointWatch::Verdict EndpointWatch::Ask(Executor* executor,
                                          const std::shared_ptr<ExecutorEndpoint>& endpoint) {
  absl::StatusOr<transport::FabricChoice> choice = transport::CopyOf(endpoint->choice());
  if (!choice.ok()) return Verdict::kUnknown;
  absl::StatusOr<std::unique_ptr<transport::CheckingEndpoint>> asking =
      transport::CheckingEndpoint::Open(*std::move(choice));
  const absl::StatusOr<uint64_t> drawn = transport::DrawRandom();
  if (!asking.ok() || !drawn.ok()) return Verdict::kUnknown;
  const uint64_t nonce = std::max<uint64_t>(*drawn, 1);
  const auto before = executor->ExpectCheck(endpoint, nonce, kTaskLimit);
  Verdict verdict = Verdict::kUnknown;
  if (before.has_value() && (*asking)->Send(endpoint->reactor()->address(), nonce).ok()) {
    verdict = AwaitCheck(executor, endpoint, *before, asking->get());
  }
  executor->ExpectCheck(endpoint, 0, kTaskLimit);
  return verdict;
}

EndpointWatch::Verdict EndpointWatch::AwaitCheck(Executor* executor,
                                                 const std::shared_ptr<ExecutorEndpoint>& endpoint,
                                                 const Executor::Activity& before,
                                                 transport::CheckingEndpoint* asking) {
  const int64_t patience_ns = absl::ToInt64Nanoseconds(options_.patience);
  int64_t waited_ns = 0;
  int64_t last_ns = transport::MonotonicNs();
  for (int patiences = 1; patiences <= kMostPatiences; ++patiences) {
    while (endpoint->reactor()->awaits_check() && waited_ns < patiences * patience_ns) {
      if (stopping()) return Verdict::kUnknown;
      asking->Poll(kStep);
      const int64_t now_ns = transport::MonotonicNs();
      waited_ns += std::min(now_ns - last_ns, kMostStepNs);
      last_ns = now_ns;
    }
    if (!endpoint->reactor()->awaits_check()) return Verdict::kAnswers;
    // Neither end can make a connection without.
    if (!MoreDescriptors::AreLeft(1)) return Verdict::kUnknown;
    const auto now = executor->ActivityOf(endpoint, kTaskLimit);
    last_ns = transport::MonotonicNs();
    if (now.has_value() && now->turns - before.turns >= options_.least_turns) {
      return now->requests == before.requests ? Verdict::kSilent : Verdict::kSlow;
    }
  }
  return Verdict::kUnknown;
}

void EndpointWatch::ReleaseReplaced() {
  has_retired_ = false;
  for (const std::unique_ptr<Executor>& executor : executors_) {
    has_retired_ |= executor->ReleaseSettled(kTaskLimit).value_or(true);
  }
}

}  // namespace invoker
