// Chooses up to which length a session's messages go in pieces: tries both methods on the session
// itself, and tries again when an end has moved to another processor.
//
// Under the turn lock; does not let go of it. Polls the session meanwhile, so only a thread that
// could take the driver's role may call Choose and Look. They block for some milliseconds at most.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_METHOD_TRIALS_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_METHOD_TRIALS_H_

#include <cstdint>
#include <optional>

#include "src/invoke/session/call.h"
#include "src/invoke/session/client_session.h"
#include "src/invoke/session/driver/placement_watch.h"
#include "src/transport/reactor/reactor.h"
#include "src/transport/self_test/method_trial.h"

namespace invoker {

class MethodTrials {
 public:
  // Once the data path has been proven. `pieces_up_to`: the program's choice; or nothing, and a
  // trial finds it. Does nothing where the fabric has no such choice.
  void Choose(ClientSession* session, const transport::Reactor& reactor,
              std::optional<uint64_t> pieces_up_to);

  // The session's look is due. The call that is about to start waits for the answer, so `now` is
  // false if the call does not block in any case, or another thread drives. Then, or if answers are
  // under way that would hold it up, asks for another look later.
  void Look(ClientSession* session, const transport::Reactor& reactor, bool now);
  // Whether a call with this deadline (0: none) has time for a look, and for a trial.
  static bool HasTimeForLook(int64_t deadline_ns) {
    return deadline_ns == 0 ||
           deadline_ns - transport::MonotonicNs() >= 2 * transport::MethodTrial::kLimitNs;
  }

  // Whether a probe that was given up has cells until its answer comes.
  bool ProbeHoldsRoom() const { return late_probe_.Is(Call::State::kTimedOut); }
  // Trials that had a result.
  uint64_t trials() const { return trials_; }

 private:
  // A probe's answer.
  struct Answer {
    int64_t ns = 0;         // how long it took
    uint32_t executor = 0;  // Placement's
  };

  std::optional<Answer> Probe(ClientSession* session, ClientSession::Request request);
  std::optional<Placement> TellExecutor(ClientSession* session);
  bool TryLength(ClientSession* session, uint64_t bytes, transport::MethodTrial* trial);
  void TryMethods(ClientSession* session, const transport::Reactor& reactor);

  PlacementWatch placement_;  // where methods have been tried
  bool is_given_ = false;     // by the program
  CallTicket late_probe_;
  uint64_t trials_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_METHOD_TRIALS_H_
