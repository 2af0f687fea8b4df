#include "src/invoke/session/driver/method_trials.h"

#include <sched.h>

namespace invoker {
namespace {

// A probe that takes longer waits for something else than the fabric: a function, or a processor.
constexpr int64_t kPatienceNs = 2'000'000;

// Turns between two readings of the clock. Others then get the processor if they want it.
constexpr uint32_t kTurnsPerClock = 64;

// The longest payload that is tried. Two requests, and as many responses, have room beside a
// program's calls.
uint64_t LongestTried(const ClientSession& session) {
  return session.geometry().window_bytes() / 4;
}

void AskForLook(ClientSession* session) {
  session->AskForLook(transport::MonotonicNs() + PlacementWatch::kIntervalNs);
}

}  // namespace

// Nothing if the answer is late, or if the session has failed or has no room. A late answer frees
// its cells when it comes, and does nothing else.
std::optional<MethodTrials::Answer> MethodTrials::Probe(ClientSession* session,
                                                        ClientSession::Request request) {
  request.highest_cells = true;
  const int64_t began_ns = transport::MonotonicNs();
  Call* const call = session->Start(request);
  if (call == nullptr) return std::nullopt;
  session->Flush();
  for (uint32_t turns = 1; !call->ended(); ++turns) {
    session->Turn();
    if (turns % kTurnsPerClock != 0) continue;
    if (transport::MonotonicNs() - began_ns > kPatienceNs) break;
    sched_yield();
  }
  const int64_t ended_ns = transport::MonotonicNs();
  if (!call->ended()) {
    late_probe_ = {call, call->sequence};
    session->Retire(call);
    return std::nullopt;
  }
  const bool answered = call->status.ok();
  const uint32_t executor = answered ? session->Detail(*call) : 0;
  session->Finish(call, /*keep_response_cells=*/false);
  if (!answered) return std::nullopt;
  return Answer{ended_ns - began_ns, executor};
}

// Has the executor do as this side does. Returns where the two ends are, if it answers.
std::optional<Placement> MethodTrials::TellExecutor(ClientSession* session) {
  ClientSession::Request request;
  request.kind = MessageKind::kProbe;
  request.function_id = AnswersInPieces(session->pieces_up_to());
  const std::optional<Answer> answer = Probe(session, request);
  if (!answer.has_value()) return std::nullopt;
  return Placement{sched_getcpu(), answer->executor};
}

// Makes the trial's round trips of one length. Each method has a place of its own for its probes,
// so that their headers repeat as those of a program's calls do. False if the trial cannot go on.
bool MethodTrials::TryLength(ClientSession* session, uint64_t bytes,
                             transport::MethodTrial* trial) {
  struct Place {
    HeldCells cells;
    bool busy = false;
  };
  Place places[2];
  bool goes_on = true;
  for (Place& place : places) {
    place.cells = session->AllocateRequestCells(bytes, /*highest=*/true);
    goes_on = goes_on && place.cells.cells != 0;
  }
  while (goes_on) {
    const auto round = trial->Next(transport::MonotonicNs());
    if (!round.has_value() || round->bytes != bytes) break;
    Place& place = places[round->pieces];
    session->set_pieces_up_to(round->pieces ? bytes : 0);
    ClientSession::Request request;
    request.kind = MessageKind::kProbe;
    request.function_id = AnswersInPieces(session->pieces_up_to());
    request.input = {session->RequestPayload(place.cells), bytes};
    request.cells = place.cells;
    request.buffer_busy = &place.busy;
    request.response_capacity = static_cast<uint32_t>(bytes);
    const std::optional<Answer> answer = Probe(session, request);
    goes_on = answer.has_value();
    if (goes_on) trial->Add(answer->ns);
  }
  for (const Place& place : places) {
    if (place.cells.cells != 0) session->ReleaseBuffer(place.cells, &place.busy);
  }
  return goes_on;
}

void MethodTrials::TryMethods(ClientSession* session, const transport::Reactor& reactor) {
  const uint64_t before = session->pieces_up_to();
  transport::MethodTrial trial(reactor.profile().inject_bytes, LongestTried(*session),
                               transport::MonotonicNs());
  bool goes_on = true;
  while (goes_on) {
    const auto round = trial.Next(transport::MonotonicNs());
    goes_on = round.has_value() && TryLength(session, round->bytes, &trial);
  }
  // Without a result all stays as it was, and the next look tries again.
  const bool decided = !trial.times().empty();
  session->set_pieces_up_to(decided ? trial.pieces_up_to() : before);
  if (!session->answered()) return;
  const std::optional<Placement> placement = TellExecutor(session);
  if (!decided || !placement.has_value()) return;
  placement_.Measured(*placement);
  ++trials_;
}

void MethodTrials::Choose(ClientSession* session, const transport::Reactor& reactor,
                          std::optional<uint64_t> pieces_up_to) {
  if (!session->may_send_pieces()) return;
  if (pieces_up_to.has_value()) {
    is_given_ = true;
    session->set_pieces_up_to(*pieces_up_to);
    // An executor that has not been told anything sends no pieces.
    if (*pieces_up_to > 0 && !TellExecutor(session).has_value()) AskForLook(session);
    return;
  }
  // A small window has no length to try, and no cells to spare for an answer that is late.
  if (LongestTried(*session) < 2 * reactor.profile().inject_bytes) return;
  TryMethods(session, reactor);
  AskForLook(session);
}

void MethodTrials::Look(ClientSession* session, const transport::Reactor& reactor, bool now) {
  if (!now || !session->answered()) return AskForLook(session);
  const std::optional<Placement> seen = TellExecutor(session);
  if (is_given_ && seen.has_value()) return;
  AskForLook(session);
  if (!is_given_ && seen.has_value() && placement_.Look(*seen)) TryMethods(session, reactor);
}

}  // namespace invoker
