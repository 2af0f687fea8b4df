// How often, and with what, a call of a group is tried (CallOptions::retry).

#ifndef INVOKER_SRC_INVOKE_GROUP_CALL_TRIES_H_
#define INVOKER_SRC_INVOKE_GROUP_CALL_TRIES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "invoker/call_fate.h"
#include "invoker/client.h"
#include "src/invoke/client/call_starter.h"
#include "src/invoke/connect/client_totals.h"
#include "src/invoke/group/executor_loads.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {

// One thread at a time.
class CallTries {
 public:
  explicit CallTries(const CallOptions& options)
      : options_(options), deadline_(options.timeout), left_(options.retry) {
    options_.retry = 0;
  }

  // The options of a try that begins now.
  CallOptions options() const {
    CallOptions options = options_;
    options.timeout = deadline_.left();
    return options;
  }
  bool late() const { return deadline_.passed(); }
  void GiveUp() { given_up_ = true; }

  // Whether there is to be another try after one that ended like this. If so, it counts from here,
  // unless the last one moves only.
  bool TakeNext(const absl::Status& last, const ExecutorLoads& loads) {
    const bool moves = MayMove(last);
    if (given_up_ || !(moves || (left_ > 0 && MayBeRetried(last)))) return false;
    if (late() || loads.left() == 0) return false;
    if (!moves) --left_;
    ClientTotals::CountRetry();
    maybe_executed_ |= GetCallFate(last) == CallFate::kMaybeExecuted;
    // Nobody may be waiting for the next one, so that one may wait.
    if (options_.when_full == WhenFull::kFail) options_.when_full = WhenFull::kWaitForCalls;
    return true;
  }

  // What the call ends with, if its last try ended like this.
  absl::Status StatusAfter(absl::Status last) const {
    return AfterTries(std::move(last), maybe_executed_);
  }

 private:
  CallOptions options_;
  CallDeadline deadline_;  // all tries together
  uint32_t left_;
  bool given_up_ = false;
  bool maybe_executed_ = false;  // by one of the tries so far
};

// The input of a call that may be tried again after its caller has gone on.
class KeptInput {
 public:
  // Copies what the caller need not keep: input that fits in the window of every client or that is
  // put together for the call, unless the caller keeps it all the same.
  void Keep(const CallInput& input, const Client& any, bool caller_keeps) {
    const bool whole = input.kind_ != CallInput::Kind::kWritten;
    if (caller_keeps || (whole && input.size() > any.max_payload())) {
      input_ = input;
    } else {
      copy_ = CallStarter::CopyOf(input);
      input_ = CallInput(copy_);
    }
  }
  const CallInput& get() const { return input_; }

 private:
  CallInput input_;
  std::string copy_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_CALL_TRIES_H_
