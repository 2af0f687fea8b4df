// Attacks of a peer that has the memory key of a window that is not its own. With tags it can still
// destroy messages there, so all but the last write where the victim has none.

#include <poll.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/hostile/attacks.h"

namespace invoker::hostile {
namespace {

// The upper half of the window, which the victim does not use.
uint16_t CellOf(const Battle& battle, uint64_t number) {
  const uint32_t half = battle.geometry.cells() / 2;
  return static_cast<uint16_t>(half + number % half);
}

void WriteToVictim(Battle* battle, Attacker* attacker, const RequestHeader& header,
                   uint64_t number) {
  const uint16_t cell = CellOf(*battle, number);
  attacker->Write(battle->victim.request_window, battle->geometry.OffsetOf(cell),
                  Encode(header, ""),
                  Immediate{MessageKind::kRequest, battle->victim.request_session, cell}.Encode());
}

// In every field right, but for what the caller changes: it never answers into the victim's cells.
RequestHeader VictimRequest(Battle* battle, uint64_t sequence) {
  RequestHeader header = OwnRequest(battle, sequence);
  header.epoch = battle->victim.epoch;
  header.response_cell = CellOf(*battle, 0);
  return header;
}

void GuessedEpochs(Battle* battle, uint64_t tries) {
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  for (uint64_t i = 0; i < tries; ++i) {
    RequestHeader header = VictimRequest(battle, 1000 + i);
    header.epoch = i % 2 == 0 ? static_cast<uint32_t>(battle->Random())
                              : battle->victim.epoch + 1 + static_cast<uint32_t>(i);
    if (header.epoch == battle->victim.epoch) continue;
    WriteToVictim(battle, attacker.get(), header, i);
  }
  attacker->Settle();
}

void ForgedRequests(Battle* battle, uint64_t tries) {
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  // Ahead of the victim, who will take long to get there, and within what an executor accepts.
  absl::StatusOr<nlohmann::json> state = battle->ask("stat");
  if (!state.ok()) return battle->Unmet(state.status());
  const uint64_t ahead = (*state)["calls"].get<uint64_t>() + 900'000;
  for (uint64_t i = 0; i < tries; ++i) {
    WriteToVictim(battle, attacker.get(), VictimRequest(battle, ahead + i), i);
  }
  attacker->Settle();
}

// The victim waits for a call that takes long, and the attacker answers first.
void ForgedResponses(Battle* battle, uint64_t tries) {
  for (uint64_t i = 0; i < tries; ++i) {
    const std::unique_ptr<Attacker> attacker = battle->AgainstVictim();
    const absl::StatusOr<nlohmann::json> parked = battle->ask("park 20");
    if (!parked.ok()) return battle->Unmet(parked.status());
    ResponseHeader header;
    header.payload_bytes = 4;
    header.sequence = (*parked)["sequence"];
    header.epoch = battle->victim.epoch;
    std::vector<std::byte> message(kHeaderBytes + 4 + kTagBytes);
    Pack(header).CopyTo(message.data());
    const uint16_t cell = (*parked)["response_cell"];
    attacker->Write(
        battle->victim.response_window, battle->geometry.OffsetOf(cell), message,
        Immediate{MessageKind::kResponse, battle->victim.response_session, cell}.Encode());
    attacker->Settle();
    if (auto ended = battle->ask(""); !ended.ok()) return battle->Unmet(ended.status());
  }
}

// Keeps the executor inside a function of the attacker's, so that it looks at nothing meanwhile.
class Hold {
 public:
  // OK once the function runs.
  absl::Status Begin(Battle* battle) {
    if (pipe(started_.data()) != 0 || pipe(release_.data()) != 0) {
      return absl::ResourceExhaustedError("no pipes");
    }
    const std::string self = absl::StrCat("/proc/", getpid(), "/fd/");
    const std::string paths = absl::StrCat(self, started_[1], " ", self, release_[0]);
    battle_ = battle;
    call_ = battle->own->Start(battle->own->FunctionId("own_hold"), paths, absl::Minutes(2));
    if (call_ == nullptr) return absl::ResourceExhaustedError("no room for a call");
    ++battle->own_calls;
    const absl::Time give_up = absl::Now() + absl::Minutes(1);
    pollfd started = {started_[0], POLLIN, 0};
    while (poll(&started, 1, 0) == 0) {
      battle->own->Poll();
      if (absl::Now() > give_up) return absl::DeadlineExceededError("the executor is not held");
    }
    return absl::OkStatus();
  }
  absl::Status End() {
    if (write(release_[1], "x", 1) != 1) return absl::InternalError("a pipe takes nothing");
    return battle_->own->Await(call_).status();
  }
  // What still runs sees that its pipe has ended.
  ~Hold() {
    for (const int end : {started_[0], started_[1], release_[0], release_[1]}) {
      if (end >= 0) close(end);
    }
  }

 private:
  Battle* battle_ = nullptr;
  Call* call_ = nullptr;
  std::array<int, 2> started_ = {-1, -1};
  std::array<int, 2> release_ = {-1, -1};
};

// Changes a call that has arrived, and that the executor cannot look at yet. The attacker's
// connection stands before: what it writes then needs nobody at the other end.
absl::Status ChangePayload(Battle* battle) {
  const bool counts_on_failure = battle->own->reply().data_auth == DataAuth::kFull;
  constexpr uint32_t kNothing = 0xffffffff;
  const bootstrap::WindowDescriptor& window = battle->victim.request_window;
  const std::array<std::byte, 16> evil = {};
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  Hold hold;
  if (absl::Status status = hold.Begin(battle); !status.ok()) return status;
  const auto parked = battle->ask(counts_on_failure ? "park 3" : "park 60");
  if (!parked.ok()) return parked.status();
  const uint32_t cell = (*parked)["request_cell"];
  attacker->Write(window, battle->geometry.OffsetOf(cell) + kHeaderBytes, evil, kNothing);
  attacker->Settle();
  if (absl::Status status = hold.End(); !status.ok()) return status;
  return battle->ask("").status();
}

void ChangedPayloads(Battle* battle, uint64_t tries) {
  absl::Status status = battle->ask("quiet").status();
  for (uint64_t i = 0; i < tries && status.ok(); ++i) status = ChangePayload(battle);
  if (status.ok()) status = battle->ask("busy").status();
  if (!status.ok()) battle->Unmet(status);
}

}  // namespace

std::vector<Attack> AttacksWithAKey() {
  return {
      {.name = "guessed epochs",
       .knows = "victim's request key",
       .run = GuessedEpochs,
       .seen = {"wrong_epoch"}},
      {.name = "forged requests",
       .knows = "victim's request key, epoch, sequence",
       .run = ForgedRequests,
       .seen = {"bad_tag"},
       .succeeds_below = DataAuth::kHeader},
      {.name = "forged responses",
       .knows = "victim's response key, epoch, sequence",
       .run = ForgedResponses,
       .seen = {"client: bad_tag"},
       .succeeds_below = DataAuth::kHeader,
       .most = 3},
      {.name = "changed payloads",
       .knows = "victim's request key",
       .run = ChangedPayloads,
       .seen = {"bad_tag"},
       .succeeds_below = DataAuth::kFull,
       .destroys = true,
       .most = 3,
       .needs_immediates = true},
  };
}

}  // namespace invoker::hostile
