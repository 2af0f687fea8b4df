// Attacks of a peer that wants to know what others call and are answered: windows are registered
// for writes alone, so that not even their keys let anybody read them.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/hostile/attacks.h"

namespace invoker::hostile {
namespace {

class NobodyRings final : public transport::ReactorHandler {
  void OnToken(uint64_t) override {}
  void OnTick(int64_t) override {}
};

// Memory that may be read is, or a refusal elsewhere says nothing.
absl::Status CheckThatReadsRead(const std::string& provider) {
  constexpr absl::string_view kText = "to be read by anyone with the key";
  NobodyRings handler;
  auto reactor = OpenReactor(provider);
  if (!reactor.ok()) return reactor.status();
  (*reactor)->set_handler(&handler);
  auto buffer = transport::HostBuffer::Allocate(Attacker::kMostRead);
  if (!buffer.ok()) return buffer.status();
  memcpy(buffer->data(), kText.data(), kText.size());
  auto region = (*reactor)->Register(*std::move(buffer), transport::RegionUse::kRemoteSource);
  if (!region.ok()) return region.status();
  Fates fates;
  auto reader = Attacker::Open(provider, (*reactor)->address(), &fates);
  if (!reader.ok()) return reader.status();
  if (!(*reader)->can_read()) return absl::UnimplementedError("the fabric has no reads");
  (*reader)->Read({region->remote_base(), region->size(), region->key()}, 0, kText.size());
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  while ((*reader)->reads() == 0 && fates.refused == 0 && absl::Now() < give_up) {
    (*reactor)->Poll();
    (*reader)->Poll();
  }
  const bool right = (*reader)->reads() == 1 &&
                     memcmp((*reader)->last_read().data(), kText.data(), kText.size()) == 0;
  (*reactor)->Retire(*std::move(region));
  return right ? absl::OkStatus() : absl::InternalError("what may be read was not");
}

// Where requests and responses lie, of the victim's calls among them, from the first bytes of a
// window to the last.
void Read(Battle* battle, uint64_t tries, bool guess) {
  // A fabric may end a connection over one of them.
  constexpr uint64_t kReadsPerEndpoint = 5;
  if (absl::Status status = CheckThatReadsRead(battle->provider); !status.ok()) {
    return battle->Unmet(status);
  }
  std::unique_ptr<Attacker> attacker;
  for (uint64_t i = 0; i < tries; ++i) {
    const bool at_server = i / kReadsPerEndpoint % 2 == 0;
    if (i % kReadsPerEndpoint == 0) {
      if (attacker != nullptr) battle->unconfirmed += attacker->outstanding();
      attacker = at_server ? battle->AgainstServer() : battle->AgainstVictim();
    }
    bootstrap::WindowDescriptor window =
        at_server ? battle->victim.request_window : battle->victim.response_window;
    if (guess) {
      // Small numbers, neighbours of a key that it has, and any.
      const uint64_t own = battle->own->reply().request_window.key;
      const uint64_t guesses[] = {i, own + 1 + i, battle->Random()};
      if (guesses[i % 3] == window.key) continue;
      window.key = guesses[i % 3];
    }
    const size_t bytes = size_t{1} << battle->Random() % 13;
    const uint64_t offset = i % 2 == 0 ? 0 : battle->Random() % (window.length - bytes);
    attacker->Read(window, offset, bytes);
    // Where nothing connects, what is under way goes on by itself, and never ends.
    if (!attacker->connects() && i % kReadsPerEndpoint + 1 < kReadsPerEndpoint && i + 1 < tries) {
      continue;
    }
    attacker->Settle();
    // Both have got past it.
    battle->Demand(
        absl::StatusCode::kOk,
        battle->own->Run(battle->own->FunctionId("counts"), "", absl::Seconds(60)).status());
    battle->Demand(absl::StatusCode::kOk, battle->ask("stat").status());
    attacker->Settle();
    if (attacker->reads() > 0) {
      return battle->Unmet(
          absl::InternalError(absl::StrCat("it has read what is the victim's, ", bytes, " bytes")));
    }
  }
  if (attacker != nullptr) battle->unconfirmed += attacker->outstanding();
}

void ReadsWithTheKey(Battle* battle, uint64_t tries) { Read(battle, tries, /*guess=*/false); }
void ReadsWithGuessedKeys(Battle* battle, uint64_t tries) { Read(battle, tries, /*guess=*/true); }

}  // namespace

std::vector<Attack> AttacksThatRead() {
  return {
      {.name = "reads with the key",
       .knows = "victim's keys, both windows",
       .run = ReadsWithTheKey,
       .seen = {"fabric"},
       .seen_unconnected = {"unconfirmed"},
       .most = 150},
      {.name = "reads with guessed keys",
       .knows = "address",
       .run = ReadsWithGuessedKeys,
       .seen = {"fabric"},
       .seen_unconnected = {"unconfirmed"},
       .most = 150},
  };
}

}  // namespace invoker::hostile
