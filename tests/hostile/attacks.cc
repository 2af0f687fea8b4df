#include "tests/hostile/attacks.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/hex.h"

namespace invoker::hostile {
namespace {

bootstrap::WindowDescriptor WindowFrom(const nlohmann::json& window) {
  return {window["base"], window["length"], window["key"]};
}

// The attacker's own troubles are no result.
std::unique_ptr<Attacker> OpenOrDie(const std::string& provider, const std::string& target,
                                    Fates* fates) {
  absl::StatusOr<std::unique_ptr<Attacker>> attacker = Attacker::Open(provider, target, fates);
  if (attacker.ok()) return *std::move(attacker);
  std::fprintf(stderr, "hostile: cannot open an endpoint: %s\n",
               attacker.status().ToString().c_str());
  std::exit(1);
}

}  // namespace

VictimFacts VictimFacts::From(const nlohmann::json& facts) {
  VictimFacts victim;
  victim.endpoint = BytesFromHex(facts["endpoint"].get<std::string>()).value();
  victim.response_window = WindowFrom(facts["response_window"]);
  victim.response_session = facts["response_session"];
  victim.request_window = WindowFrom(facts["request_window"]);
  victim.request_session = facts["request_session"];
  victim.epoch = facts["epoch"];
  return victim;
}

absl::Status Battle::Renew() {
  own.reset();
  absl::StatusOr<std::unique_ptr<RawSession>> session = RawSession::Open(server, provider);
  if (!session.ok()) return session.status();
  own = *std::move(session);
  geometry = own->session().geometry();
  return absl::OkStatus();
}

void Battle::Demand(absl::StatusCode code, const absl::Status& status) {
  if (status.code() == code) return Met();
  Unmet(absl::InternalError(absl::StrCat("answered otherwise than ", absl::StatusCodeToString(code),
                                         ": ", status.ToString())));
}

// Behind what anybody's calls use of it.
void Battle::Reach(Attacker* attacker, const bootstrap::WindowDescriptor& window) {
  const std::array<std::byte, 16> nothing = {};
  Unmet(attacker->Reach(window, window.length - nothing.size(), nothing));
}

std::unique_ptr<Attacker> Battle::AgainstServer() {
  std::unique_ptr<Attacker> attacker = OpenOrDie(provider, own->reply().endpoint_address, &fates);
  Reach(attacker.get(), own->reply().request_window);
  return attacker;
}

std::unique_ptr<Attacker> Battle::AgainstVictim() {
  std::unique_ptr<Attacker> attacker = OpenOrDie(provider, victim.endpoint, &fates);
  Reach(attacker.get(), victim.response_window);
  return attacker;
}

void Battle::Replace(std::unique_ptr<Attacker>* attacker) {
  if (*attacker == nullptr || (*attacker)->connects()) *attacker = AgainstServer();
}

void Battle::WriteWrongly(Attacker* attacker, const bootstrap::WindowDescriptor& window,
                          uint64_t offset, absl::Span<const std::byte> bytes, uint32_t token,
                          uint64_t i, uint64_t tries) {
  const bool last = i + 1 == tries;
  if (attacker->connects() ? i % 2 == 0 : last) {
    attacker->WriteConfirmed(window, offset, bytes, token);
  } else {
    attacker->Write(window, offset, bytes, token);
  }
  attacker->Settle();
  if (attacker->connects() || !last) return;
  // The server has got past it.
  Demand(absl::StatusCode::kOk,
         own->Run(own->FunctionId("counts"), "", absl::Seconds(60)).status());
  attacker->Settle();
  unconfirmed += attacker->outstanding();
}

RequestHeader OwnRequest(Battle* battle, uint64_t sequence) {
  RequestHeader header;
  header.function_id = battle->own->FunctionId("forged_call");
  header.sequence = sequence;
  header.epoch = battle->own->reply().epoch;
  header.response_cell = 0;
  header.response_capacity = 16;
  return header;
}

std::vector<std::byte> Encode(const RequestHeader& header, absl::string_view payload) {
  std::vector<std::byte> message(kHeaderBytes + payload.size() + kTagBytes);
  Pack(header).CopyTo(message.data());
  memcpy(message.data() + kHeaderBytes, payload.data(), payload.size());
  return message;
}

uint32_t OwnToken(const Battle& battle, uint32_t cell, MessageKind kind) {
  return Immediate{kind, battle.own->reply().request_session, static_cast<uint16_t>(cell)}.Encode();
}

std::vector<Attack> AllAttacks() {
  std::vector<Attack> all = AttacksOfAnybody();
  for (Attack& attack : AttacksFromASession()) all.push_back(std::move(attack));
  for (Attack& attack : AttacksOnAStore()) all.push_back(std::move(attack));
  for (Attack& attack : AttacksWithAKey()) all.push_back(std::move(attack));
  for (Attack& attack : AttacksThatRead()) all.push_back(std::move(attack));
  for (Attack& attack : AttacksOnTheBootstrap()) all.push_back(std::move(attack));
  return all;
}

}  // namespace invoker::hostile
