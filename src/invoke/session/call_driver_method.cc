// CallDriver: in pieces, or in one write? Measured on the session itself.

#include <sched.h>

#include <utility>

#include "src/invoke/session/call_driver.h"
#include "src/transport/self_test/method_trial.h"

namespace invoker {
namespace {

// A probe that takes longer waits for something else than the fabric: a function, or a processor.
constexpr int64_t kPatienceNs = 2'000'000;

// In so many turns the clock is read once, and others get the processor if they want it.
constexpr uint32_t kTurnsPerClock = 64;

}  // namespace

// Nothing if the answer is late, or if the session has failed or has no room. A late answer frees
// its cells when it comes, and does nothing else.
std::optional<CallDriver::Answer> CallDriver::ProbeLocked(const ClientSession::Request& request) {
  const int64_t began_ns = transport::MonotonicNs();
  Call* const call = session_->Start(request);
  if (call == nullptr) return std::nullopt;
  session_->Flush();
  for (uint32_t turns = 1; !call->ended(); ++turns) {
    reactor_->Poll();
    session_->Flush();
    if (turns % kTurnsPerClock != 0) continue;
    if (transport::MonotonicNs() - began_ns > kPatienceNs) break;
    sched_yield();
  }
  const int64_t ended_ns = transport::MonotonicNs();
  if (!call->ended()) {
    late_probe_ = {call, call->sequence};
    session_->Abandon(call);
    return std::nullopt;
  }
  const bool answered = call->status.ok();
  const uint32_t executor = answered ? session_->Detail(*call) : 0;
  session_->Finish(call, /*keep_response_cells=*/false);
  if (!answered) return std::nullopt;
  return Answer{ended_ns - began_ns, executor};
}

// Has the executor do as this side does. Returns where the two ends are, if it answers.
std::optional<Placement> CallDriver::TellMethodLocked() {
  ClientSession::Request request;
  request.kind = MessageKind::kProbe;
  request.function_id = AnswersInPieces(session_->pieces_up_to());
  const std::optional<Answer> answer = ProbeLocked(request);
  if (!answer.has_value()) return std::nullopt;
  return Placement{sched_getcpu(), answer->executor};
}

// Makes the trial's round trips of one length. Each way has a place of its own for its probes, so
// that their headers repeat as those of a program's calls do. False if the trial cannot go on.
bool CallDriver::TryLengthLocked(uint64_t bytes, transport::MethodTrial* trial) {
  struct Place {
    HeldCells cells;
    bool busy = false;
  };
  Place places[2];
  bool goes_on = true;
  for (Place& place : places) {
    place.cells = session_->AllocateRequestCells(bytes);
    goes_on = goes_on && place.cells.cells != 0;
  }
  while (goes_on) {
    const auto round = trial->Next(transport::MonotonicNs());
    if (!round.has_value() || round->bytes != bytes) break;
    Place& place = places[round->pieces];
    session_->set_pieces_up_to(round->pieces ? bytes : 0);
    ClientSession::Request request;
    request.kind = MessageKind::kProbe;
    request.function_id = AnswersInPieces(session_->pieces_up_to());
    request.input = {session_->RequestPayload(place.cells), bytes};
    request.cells = place.cells;
    request.buffer_busy = &place.busy;
    request.response_capacity = static_cast<uint32_t>(bytes);
    const std::optional<Answer> answer = ProbeLocked(request);
    goes_on = answer.has_value();
    if (goes_on) trial->Add(answer->ns);
  }
  for (const Place& place : places) {
    if (place.cells.cells != 0) session_->ReleaseBuffer(place.cells, &place.busy);
  }
  return goes_on;
}

void CallDriver::TryMethodsLocked() {
  const uint64_t before = session_->pieces_up_to();
  transport::MethodTrial trial(reactor_->profile().inject_bytes, LongestTried(),
                               transport::MonotonicNs());
  bool goes_on = true;
  while (goes_on) {
    const auto round = trial.Next(transport::MonotonicNs());
    goes_on = round.has_value() && TryLengthLocked(round->bytes, &trial);
  }
  // Without a result all stays as it was, and the next look tries again.
  const bool decided = !trial.times().empty();
  session_->set_pieces_up_to(decided ? trial.pieces_up_to() : before);
  if (!session_->answered()) return;
  const std::optional<Placement> placement = TellMethodLocked();
  if (!decided || !placement.has_value()) return;
  placement_.Measured(*placement);
  ++method_trials_;
}

void CallDriver::ChooseMethodLocked(std::optional<uint64_t> pieces_up_to) {
  if (!session_->may_send_pieces()) return;
  if (pieces_up_to.has_value()) {
    method_is_given_ = true;
    session_->set_pieces_up_to(*pieces_up_to);
    // An executor that nobody has told anything sends no pieces.
    if (*pieces_up_to > 0 && !TellMethodLocked().has_value()) AskForLookLocked();
    return;
  }
  // A small window has no length to try, and no cells to spare for an answer that is late.
  if (LongestTried() < 2 * reactor_->profile().inject_bytes) return;
  TryMethodsLocked();
  AskForLookLocked();
}

void CallDriver::AskForLookLocked() {
  session_->AskForLook(transport::MonotonicNs() + PlacementWatch::kIntervalNs);
}

// It is time to look where the two ends run. The call that is about to start waits for the answer,
// so this happens only if the call blocks in any case (`now`), and only in a session that is idle:
// another thread that drives, or an answer that is under way, would hold it up.
void CallDriver::LookAtPlacementLocked(bool now) {
  if (!now || driven_ || !session_->answered()) return AskForLookLocked();
  const std::optional<Placement> seen = TellMethodLocked();
  if (method_is_given_ && seen.has_value()) return;
  AskForLookLocked();
  if (!method_is_given_ && seen.has_value() && placement_.Look(*seen)) TryMethodsLocked();
}

}  // namespace invoker
