#include "invoker/map_run.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "invoker/call_fate.h"
#include "src/invoke/client/call_starter.h"
#include "src/invoke/connect/client_totals.h"
#include "src/invoke/group/executor_loads.h"
#include "src/invoke/group/group_function_ids.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {
namespace {

constexpr size_t kCallsPerExecutor = 2;

// So many times max_in_flight may be under way or done and not taken.
constexpr size_t kHeldPerCall = 4;

}  // namespace

// What the calls' callbacks share with the run. A thread that finds that a call may start starts
// it: the run's own thread, or a callback; by one thread at a time, so that they leave in the
// inputs' order. No lock is held while one is started.
class MapRun::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<const GroupFunctionIds> function, std::shared_ptr<ExecutorLoads> loads,
       const MapOptions& options)
      : function_(std::move(function)),
        loads_(std::move(loads)),
        ordered_(options.ordered),
        stop_on_error_(options.stop_on_error),
        max_in_flight_(options.max_in_flight),
        tries_(uint64_t{options.call.retry} + 1),
        call_(options.call) {
    // Calls are cancelled by ending the run.
    call_.interrupted = nullptr;
    call_.retry = 0;
  }

  // Whether the source is to be asked for another input.
  bool WantsInput() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return !source_ended_ && !stopped_ && ready_.size() < max_in_flight() && HasRoomLocked();
  }
  void AddInput(std::optional<absl::StatusOr<MapInput>> input) ABSL_LOCKS_EXCLUDED(mutex_);

  // Starts what may be started.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);
  // Start, for the run's own thread: responses may have been released, and it may wait for room
  // where nothing of this run will make any.
  void StartAndWaitForRoom() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until there is a result or there will be none, or until more is to be done for one. True
  // in the former cases.
  bool WaitUntil(const CallDeadline& deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<MapResult> Take() ABSL_LOCKS_EXCLUDED(mutex_);

  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Nobody takes results any more. When this returns, no client is called any more.
  void Retire() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Ready {
    uint64_t index;
    MapInput input;
    uint64_t tries = 0;           // so far
    CallDeadline deadline = {};   // all tries together, from the first
    bool maybe_executed = false;  // by one of them
  };

  // Grows when executors join the group meanwhile.
  size_t max_in_flight() const {
    return max_in_flight_ != 0 ? max_in_flight_ : kCallsPerExecutor * loads_->size();
  }
  bool HasRoomLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return under_way_ + results_.size() < kHeldPerCall * max_in_flight();
  }
  bool MayStartLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !ready_.empty() && !stopped_ && !blocked_ && under_way_ < max_in_flight() &&
           HasRoomLocked();
  }
  bool HasResultLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    if (results_.empty()) return false;
    // A run that has been stopped may lack some.
    return !ordered_ || results_.begin()->first == next_result_ || (stopped_ && under_way_ == 0);
  }
  bool IsOverLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return results_.empty() && under_way_ == 0 && (stopped_ || (source_ended_ && ready_.empty()));
  }
  // Whether the run's thread is to take inputs or to wait for room.
  bool NeedsRunLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    if (stopped_) return false;
    if (blocked_ && under_way_ == 0) return true;
    return !source_ended_ && 2 * ready_.size() < max_in_flight() && HasRoomLocked();
  }
  void WakeRunLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (HasResultLocked() || IsOverLocked() || NeedsRunLocked()) changed_.SignalAll();
  }
  void StartLocked(WhenFull when_full) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartOneLocked(WhenFull when_full) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddResultLocked(uint64_t index, absl::StatusOr<Response> response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropLocked(const Ready& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TryAgainLocked(uint64_t index, absl::StatusOr<Response>* response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnDone(uint64_t index, ExecutorLoads::Session session, absl::StatusOr<Response> response)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<const GroupFunctionIds> function_;
  // Its clients are used by a thread that starts calls only, and so not after Retire.
  const std::shared_ptr<ExecutorLoads> loads_;
  const bool ordered_;
  const bool stop_on_error_;
  const size_t max_in_flight_;  // 0: by the executors that there are
  const uint64_t tries_;        // most for an item
  CallOptions call_;

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::deque<Ready> ready_ ABSL_GUARDED_BY(mutex_);  // inputs that wait for their calls
  std::map<uint64_t, absl::StatusOr<Response>> results_ ABSL_GUARDED_BY(mutex_);
  // Calls under way, which may be tried again, or whose input the executor reads.
  std::map<uint64_t, Ready> held_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_input_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_result_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;  // calls so far
  bool source_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool retired_ ABSL_GUARDED_BY(mutex_) = false;
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;  // a thread starts calls
  bool blocked_ ABSL_GUARDED_BY(mutex_) = false;   // a window had no room for the next one
};

void MapRun::Core::AddInput(std::optional<absl::StatusOr<MapInput>> input) {
  absl::MutexLock lock(&mutex_);
  if (!input.has_value()) {
    source_ended_ = true;
  } else if (input->ok()) {
    ready_.push_back({next_input_++, **std::move(input)});
  } else {
    AddResultLocked(next_input_++, input->status());
  }
}

void MapRun::Core::AddResultLocked(uint64_t index, absl::StatusOr<Response> response) {
  if (!response.ok() && stop_on_error_) StopLocked();
  results_.emplace(index, std::move(response));
}

void MapRun::Core::StopLocked() {
  stopped_ = true;
  const std::deque<Ready> dropped = std::exchange(ready_, {});
  for (const Ready& item : dropped) DropLocked(item);
}

// Nothing has become of an item that was not called. One whose call was to be tried again has a
// result.
void MapRun::Core::DropLocked(const Ready& item) {
  if (!item.maybe_executed || retired_) return;
  results_.emplace(
      item.index,
      WithFate(absl::CancelledError("the map was stopped before the call was tried again"),
               CallFate::kMaybeExecuted));
}

void MapRun::Core::Start() {
  absl::MutexLock lock(&mutex_);
  StartLocked(WhenFull::kFail);
  WakeRunLocked();
}

void MapRun::Core::StartAndWaitForRoom() {
  absl::MutexLock lock(&mutex_);
  blocked_ = false;
  StartLocked(WhenFull::kFail);
  if (!blocked_ || under_way_ > 0 || HasResultLocked() || starting_) return;
  blocked_ = false;
  starting_ = true;
  if (MayStartLocked()) StartOneLocked(WhenFull::kWaitForCalls);
  starting_ = false;
  StartLocked(WhenFull::kFail);
}

void MapRun::Core::StartLocked(WhenFull when_full) {
  if (starting_) return;
  starting_ = true;
  while (MayStartLocked()) StartOneLocked(when_full);
  starting_ = false;
  if (retired_) changed_.SignalAll();
}

// Unlocks meanwhile.
void MapRun::Core::StartOneLocked(WhenFull when_full) {
  Ready next = std::move(ready_.front());
  ready_.pop_front();
  const absl::StatusOr<ExecutorLoads::Session> session = loads_->Begin();
  if (!session.ok()) {
    AddResultLocked(next.index, AfterTries(session.status(), next.maybe_executed));
    return;
  }
  const RemoteFunction* const function = function_->In(*session);
  if (function == nullptr) {
    loads_->End(*session);
    ready_.push_front(std::move(next));
    return;
  }
  ++under_way_;
  const uint64_t ended = ended_;
  CallOptions options = call_;
  options.when_full = when_full;
  if (next.deadline.none()) next.deadline = CallDeadline(call_.timeout);
  if (!next.deadline.none()) options.timeout = next.deadline.left();
  const uint64_t index = next.index;
  ++next.tries;
  Ready& item = held_.insert_or_assign(index, std::move(next)).first->second;
  mutex_.Unlock();
  CallDone done = [core = shared_from_this(), index,
                   session = *session](absl::StatusOr<Response> response) {
    core->OnDone(index, session, std::move(response));
  };
  const absl::Status status =
      CallStarter::Start(session->client(), *function, item.input.bytes(), options, done);
  mutex_.Lock();
  if (status.ok()) return;
  next = std::move(item);
  held_.erase(index);
  // What was not sent does not count.
  --next.tries;
  --under_way_;
  const bool full = absl::IsResourceExhausted(status) && when_full == WhenFull::kFail;
  const bool lost = !full && ShowsLostExecutor(status);
  if (lost) loads_->Lose(*session, status);
  loads_->End(*session);
  if (full) {
    // A call that has ended meanwhile may have made room.
    blocked_ = ended_ == ended;
    // It waits for its turn, which is no part of a first try.
    if (next.tries == 0) next.deadline = CallDeadline();
  } else if (!lost) {
    AddResultLocked(next.index, AfterTries(status, next.maybe_executed));
    return;
  }
  if (stopped_) {
    DropLocked(next);
  } else {
    ready_.push_front(std::move(next));
  }
}

// Whether the item whose call has ended like this waits to be called again. If not, `response` is
// what it has ended with.
bool MapRun::Core::TryAgainLocked(uint64_t index, absl::StatusOr<Response>* response) {
  const auto found = held_.find(index);
  if (found == held_.end()) return false;
  Ready item = std::move(found->second);
  held_.erase(found);
  if (response->ok()) return false;
  const absl::Status status = response->status();
  const bool again = MayMove(status) || (item.tries < tries_ && MayBeRetried(status));
  if (stopped_ || retired_ || !again || item.deadline.passed()) {
    *response = AfterTries(status, item.maybe_executed);
    return false;
  }
  ClientTotals::CountRetry();
  // What has only moved does not count.
  if (MayMove(status)) --item.tries;
  item.maybe_executed |= GetCallFate(status) == CallFate::kMaybeExecuted;
  ready_.push_front(std::move(item));
  return true;
}

void MapRun::Core::OnDone(uint64_t index, ExecutorLoads::Session session,
                          absl::StatusOr<Response> response) {
  if (!response.ok() && ShowsLostExecutor(response.status())) {
    loads_->Lose(session, response.status());
  }
  loads_->End(session);
  absl::MutexLock lock(&mutex_);
  --under_way_;
  ++ended_;
  blocked_ = false;
  const bool again = TryAgainLocked(index, &response);
  if (!again && !retired_) AddResultLocked(index, std::move(response));
  StartLocked(WhenFull::kFail);
  WakeRunLocked();
}

bool MapRun::Core::WaitUntil(const CallDeadline& deadline) {
  absl::MutexLock lock(&mutex_);
  while (!HasResultLocked() && !IsOverLocked()) {
    if (NeedsRunLocked() || changed_.WaitWithTimeout(&mutex_, deadline.left())) {
      return HasResultLocked() || IsOverLocked();
    }
  }
  return true;
}

std::optional<MapResult> MapRun::Core::Take() {
  absl::MutexLock lock(&mutex_);
  if (!HasResultLocked()) return std::nullopt;
  const auto first = results_.begin();
  next_result_ = first->first + 1;
  std::optional<MapResult> result(std::in_place);
  result->index = first->first;
  result->response = std::move(first->second);
  results_.erase(first);
  return result;
}

void MapRun::Core::Stop() {
  absl::MutexLock lock(&mutex_);
  StopLocked();
}

void MapRun::Core::Retire() {
  std::map<uint64_t, absl::StatusOr<Response>> results;
  absl::MutexLock lock(&mutex_);
  retired_ = true;
  StopLocked();
  results.swap(results_);
  while (starting_) changed_.Wait(&mutex_);
}

MapRun::MapRun(std::shared_ptr<const GroupFunctionIds> function,
               std::shared_ptr<ExecutorLoads> loads, MapSource source, uint64_t total,
               MapOptions options)
    : core_(std::make_shared<Core>(std::move(function), std::move(loads), options)),
      source_(std::move(source)),
      total_(total),
      on_progress_(std::move(options.on_progress)) {
  TakeInputs();
  core_->Start();
}

MapRun::MapRun(MapRun&&) noexcept = default;

MapRun& MapRun::operator=(MapRun&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(source_, other.source_);
  std::swap(total_, other.total_);
  std::swap(taken_, other.taken_);
  std::swap(on_progress_, other.on_progress_);
  return *this;
}

MapRun::~MapRun() {
  if (core_ != nullptr) core_->Retire();
}

void MapRun::TakeInputs() {
  while (core_->WantsInput()) core_->AddInput(source_());
}

bool MapRun::Wait(absl::Duration limit) {
  const CallDeadline deadline(limit);
  do {
    TakeInputs();
    core_->StartAndWaitForRoom();
    if (core_->WaitUntil(deadline)) return true;
  } while (!deadline.passed());
  return false;
}

std::optional<MapResult> MapRun::Next() {
  Wait(absl::InfiniteDuration());
  std::optional<MapResult> result = core_->Take();
  if (!result.has_value()) return result;
  ++taken_;
  if (on_progress_) on_progress_(taken_, total_);
  return result;
}

void MapRun::Stop() { core_->Stop(); }

}  // namespace invoker
