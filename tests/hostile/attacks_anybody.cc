// Attacks of a peer that reaches the endpoints and has nothing else: doorbells, messages, keys that
// it guesses.

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "src/transport/base/ring_message.h"
#include "src/transport/provider/provider_profile.h"
#include "tests/hostile/attacks.h"
#include "tests/hostile/server_state.h"

namespace invoker::hostile {
namespace {

// The most for a new endpoint, since a fabric may end a connection over one of them.
constexpr uint64_t kWritesPerEndpoint = 5;

void RandomDoorbells(Battle* battle, uint64_t tries) {
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  for (uint64_t i = 0; i < tries; ++i) attacker->Ring(static_cast<uint32_t>(battle->Random()));
  attacker->Settle();
}

// Every kind and every cell, of the very session.
void DoorbellsOfTheVictim(Battle* battle, uint64_t tries) {
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  for (uint64_t i = 0; i < tries; ++i) {
    const Immediate immediate = {static_cast<MessageKind>(i % 3), battle->victim.request_session,
                                 static_cast<uint16_t>(i / 3 % kMaxCells)};
    attacker->Ring(immediate.Encode());
  }
  attacker->Settle();
}

void DoorbellsToTheClient(Battle* battle, uint64_t tries) {
  const std::unique_ptr<Attacker> attacker = battle->AgainstVictim();
  for (uint64_t i = 0; i < tries; ++i) {
    const Immediate response = {MessageKind::kResponse, battle->victim.response_session,
                                static_cast<uint16_t>(i / 2 % kMaxCells)};
    attacker->Ring(i % 2 == 0 ? response.Encode() : static_cast<uint32_t>(battle->Random()));
  }
  attacker->Settle();
}

// Rings without a pause for the same cell of each, from a thread of its own, until it is told to
// stop and has rung so often.
class Ringer {
 public:
  Ringer(Battle* battle, uint64_t least)
      : server_(battle->AgainstServer()),
        client_(battle->AgainstVictim()),
        request_(Immediate{MessageKind::kRequest, battle->victim.request_session, 0}.Encode()),
        response_(Immediate{MessageKind::kResponse, battle->victim.response_session, 0}.Encode()),
        least_(least),
        thread_([this] { Run(); }) {}

  // How often it has rung.
  uint64_t Stop() {
    stop_ = true;
    thread_.join();
    return rung_;
  }

 private:
  void Run() {
    while (!stop_ || rung_ < least_) {
      server_->Ring(request_);
      client_->Ring(response_);
      ++rung_;
    }
    server_->Settle();
    client_->Settle();
  }

  const std::unique_ptr<Attacker> server_;
  const std::unique_ptr<Attacker> client_;
  const uint32_t request_;
  const uint32_t response_;
  const uint64_t least_;
  uint64_t rung_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// The victim's messages are long and arrive piece by piece. Its calls use the lowest cells, so the
// attacker knows where. Where a tag tells that a message was not there whole, it goes on until each
// side has met one.
void DoorbellsTooEarly(Battle* battle, uint64_t tries) {
  constexpr uint64_t kMostCalls = 5000;
  if (tries == 0) return;
  const auto first = battle->ask("large");
  if (!first.ok()) return battle->Unmet(first.status());
  absl::StatusOr<Drops> before = ReadDrops(battle->own.get());
  if (!before.ok()) return battle->Unmet(before.status());
  Ringer ringer(battle, tries);
  const bool told = battle->own->reply().data_auth != DataAuth::kOff &&
                    !transport::FindRow(battle->provider).same_host_only;
  const uint64_t most = (*first)["calls"].get<uint64_t>() + (told ? kMostCalls : 16);
  bool met = false;
  for (uint64_t calls = 0; !met && calls < most;) {
    const auto victim = battle->ask("stat");
    absl::StatusOr<Drops> now = ReadDrops(battle->own.get());
    if (!victim.ok() || !now.ok()) {
      battle->Unmet(victim.ok() ? now.status() : victim.status());
      break;
    }
    calls = (*victim)["calls"];
    met = told && (*victim)["dropped"]["bad_tag"] > 0 && (*now)["bad_tag"] > (*before)["bad_tag"];
  }
  battle->tried = ringer.Stop();
}

std::vector<std::byte> RandomBytes(Battle* battle, size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(battle->Random());
  return bytes;
}

// Sends every length up to more than a ring's buffer takes.
void MessagesOfNoKind(Battle* battle, uint64_t tries) {
  std::unique_ptr<Attacker> attacker;
  for (uint64_t i = 0; i < tries; ++i) {
    // One that is too long for its buffer may cost the connection.
    if (i % 10 == 0) battle->Replace(&attacker);
    size_t size = battle->Random() % (i % 10 == 9 ? attacker->longest() : 200);
    if (size == transport::kTokenBytes) ++size;
    std::vector<std::byte> message = RandomBytes(battle, size);
    // Half of them have a type that there is.
    if (i % 2 == 0 && size >= transport::kRingHeaderBytes) {
      message[0] = static_cast<std::byte>(1 + battle->Random() % 3);
      std::fill(message.begin() + 1, message.begin() + 4, std::byte{0});
    }
    attacker->Send(message);
    attacker->Settle();
  }
}

// A whole request inside a message, for a window whose key is a guess.
void EagerMessagesWithGuessedKeys(Battle* battle, uint64_t tries) {
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  const std::vector<std::byte> request = Encode(OwnRequest(battle, 1), "");
  std::vector<std::byte> message(transport::kRingHeaderBytes + request.size());
  std::copy(request.begin(), request.end(), message.begin() + transport::kRingHeaderBytes);
  for (uint64_t i = 0; i < tries; ++i) {
    transport::RingHeader header;
    header.token = Immediate{MessageKind::kRequest, battle->victim.request_session, 9}.Encode();
    header.key = battle->Random() >> (i % 64);
    header.offset = battle->geometry.OffsetOf(9);
    transport::EncodeRingHeader(header, message.data());
    attacker->Send(message);
  }
  attacker->Settle();
}

void WritesWithGuessedKeys(Battle* battle, uint64_t tries) {
  std::unique_ptr<Attacker> attacker;
  const std::vector<std::byte> request = Encode(OwnRequest(battle, 1), "");
  bootstrap::WindowDescriptor window = battle->victim.request_window;
  const uint64_t right = window.key;
  const uint64_t own = battle->own->reply().request_window.key;
  for (uint64_t i = 0; i < tries; ++i) {
    if (i % kWritesPerEndpoint == 0) battle->Replace(&attacker);
    // Small numbers, neighbours of a key that it has, and any.
    window.key = i % 3 == 0 ? i : i % 3 == 1 ? own + 1 + i : battle->Random();
    if (window.key == right || window.key == own) continue;
    battle->WriteWrongly(
        attacker.get(), window, battle->geometry.OffsetOf(9), request,
        Immediate{MessageKind::kRequest, battle->victim.request_session, 9}.Encode(), i, tries);
  }
}

}  // namespace

std::vector<Attack> AttacksOfAnybody() {
  return {
      {.name = "random doorbells",
       .knows = "address",
       .run = RandomDoorbells,
       .seen = {"unknown_session"}},
      {.name = "doorbells of the victim's session",
       .knows = "address",
       .run = DoorbellsOfTheVictim,
       .seen = {"unknown_session", "kind_mismatch"}},
      {.name = "doorbells to the client",
       .knows = "address",
       .run = DoorbellsToTheClient,
       .seen = {"client: unknown_session",
                "client: no_such_call|client: wrong_sequence|client: not_a_header"}},
      {.name = "doorbells too early",
       .knows = "address",
       .run = DoorbellsTooEarly,
       .seen = {"replayed", "client: no_such_call|client: wrong_sequence"},
       .seen_with_tags = {"bad_tag", "client: bad_tag"},
       .seen_unconnected = {"replayed|bad_tag",
                            "client: no_such_call|client: wrong_sequence|client: bad_tag"},
       .race_without_tags = true},
      {.name = "messages of no kind",
       .knows = "address",
       .run = MessagesOfNoKind,
       .seen = {"stray_message"},
       .most = 500},
      {.name = "messages with guessed keys",
       .knows = "address",
       .run = EagerMessagesWithGuessedKeys,
       .seen = {"stray_message"}},
      {.name = "writes with guessed keys",
       .knows = "address",
       .run = WritesWithGuessedKeys,
       .seen = {"fabric"},
       .seen_unconnected = {"unconfirmed"},
       .most = 150},
  };
}

}  // namespace invoker::hostile
