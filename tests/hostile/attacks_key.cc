// Attacks of a peer that has the memory key of a window that is not its own. With tags it can still
// destroy messages there, so these write where the victim has none.

#include <vector>

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
    const absl::StatusOr<nlohmann::json> parked = battle->ask("park");
    if (!parked.ok()) return battle->Unmet(parked.status());
    ResponseHeader header;
    header.payload_bytes = 4;
    header.sequence = (*parked)["sequence"];
    header.epoch = battle->victim.epoch;
    std::vector<std::byte> message(kHeaderBytes + 4 + kTagBytes);
    EncodeResponse(header, message.data());
    const uint16_t cell = (*parked)["response_cell"];
    attacker->Write(
        battle->victim.response_window, battle->geometry.OffsetOf(cell), message,
        Immediate{MessageKind::kResponse, battle->victim.response_session, cell}.Encode());
    attacker->Settle();
    if (auto ended = battle->ask(""); !ended.ok()) return battle->Unmet(ended.status());
  }
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
       .succeeds_without_tags = true},
      {.name = "forged responses",
       .knows = "victim's response key, epoch, sequence",
       .run = ForgedResponses,
       .seen = {"client: bad_tag"},
       .succeeds_without_tags = true,
       .most = 3},
  };
}

}  // namespace invoker::hostile
