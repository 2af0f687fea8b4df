// Attacks of a client that has a session of its own, and with it the right to write into a window.

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "invoker/values.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/invoke/wire/sequence_window.h"
#include "src/transport/provider/provider_profile.h"
#include "tests/hostile/attacks.h"
#include "tests/hostile/server_state.h"

namespace invoker::hostile {
namespace {

// Rings for a message in the attacker's own window, where the ones before it are still to be seen:
// each has another place.
void WriteOwn(Battle* battle, Attacker* attacker, absl::Span<const std::byte> message,
              uint64_t number) {
  constexpr uint32_t kFirst = 100;
  const uint32_t cell = kFirst + static_cast<uint32_t>(number % 10'000);
  attacker->Write(battle->own->reply().request_window, battle->geometry.OffsetOf(cell), message,
                  OwnToken(*battle, cell));
}

// The beginning of a header, and behind it what is there.
void HalfWrittenMessages(Battle* battle, uint64_t tries) {
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  for (uint64_t i = 0; i < tries; ++i) {
    const std::vector<std::byte> whole = Encode(OwnRequest(battle, 1000 + i), "");
    // Without an epoch, at the most.
    WriteOwn(battle, attacker.get(), absl::MakeSpan(whole).subspan(0, 1 + i % 16), i);
  }
  attacker->Settle();
}

// Everything that a header can say and must not: in a session with tags, it is refused before the
// tag is looked at.
void LengthsBeyondTheWindow(Battle* battle, uint64_t tries) {
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  const uint32_t window = static_cast<uint32_t>(battle->geometry.window_bytes());
  for (uint64_t i = 0; i < tries; ++i) {
    RequestHeader header = OwnRequest(battle, 1000 + i);
    switch (i % 4) {
      case 0:
        header.payload_bytes = 0xffffffff;
        break;
      case 1:
        header.payload_bytes = window - static_cast<uint32_t>(battle->Random() % kHeaderBytes);
        break;
      case 2:
        header.response_capacity = 0xffffffff;
        break;
      default:
        header.response_cell = 0xffff;
        header.response_capacity = window;
    }
    WriteOwn(battle, attacker.get(), Encode(header, ""), i);
  }
  attacker->Settle();
}

// With the attacker's own key, and the doorbell of another: another's cells can only lie beyond its
// window.
void CellsBeyondTheWindow(Battle* battle, uint64_t tries) {
  std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  const std::vector<std::byte> request = Encode(OwnRequest(battle, 5000), "");
  const bootstrap::WindowDescriptor own = battle->own->reply().request_window;
  for (uint64_t i = 0; i < tries; ++i) {
    // A fabric may end a connection over one of them.
    if (i % 5 == 0) battle->Replace(&attacker);
    // Just behind its window, as the last, before it, and anywhere.
    const uint64_t offset = i % 3 == 0 || i + 1 == tries
                                ? own.length + battle->Random() % own.length
                            : i % 3 == 1 ? uint64_t{0} - 1 - battle->Random() % own.length
                                         : std::max(battle->Random(), 2 * own.length);
    battle->WriteWrongly(
        attacker.get(), own, offset, request,
        Immediate{MessageKind::kRequest, battle->victim.request_session, 9}.Encode(), i, tries);
  }
}

// Until it leaves, since each is counted: on a loaded machine the fabric may take nothing for a
// while. The answers to what has left go to the attacker's own session.
bool Insist(Battle* battle, absl::FunctionRef<bool()> post) {
  const absl::Time give_up = absl::Now() + kPatience;
  while (true) {
    const bool left = post();
    battle->own->Poll();
    if (left || absl::Now() > give_up) return left;
  }
}

// Until the server has dropped so many replays. The answers go to the attacker's own session.
absl::Status AwaitReplays(Battle* battle, Attacker* attacker, uint64_t wanted) {
  const absl::Time give_up = absl::Now() + kPatience;
  uint64_t replayed = 0;
  while (replayed < wanted && absl::Now() < give_up) {
    attacker->Poll();
    battle->own->Poll();
    absl::StatusOr<Drops> drops = ReadDrops(battle->own.get());
    if (!drops.ok()) return drops.status();
    replayed = (*drops)["replayed"];
  }
  if (replayed == wanted) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(replayed, " replays were dropped in all, and not ", wanted));
}

// Each request twice, with a tag that is right, each copy in a place of its own and all of them in
// any order; then all their doorbells again, in another. So each runs once, and is three times a
// replay. No more at a time than the server can tell from what is too old.
void ReplaysInAnyOrder(Battle* battle, uint64_t tries) {
  constexpr uint32_t kFirst = 100;
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  const bootstrap::OpenSessionReply& reply = battle->own->reply();
  std::optional<MessageAuthenticator> authenticator;
  if (reply.data_auth != DataAuth::kOff)
    authenticator.emplace(reply.data_auth, reply.data_keys.request);
  absl::StatusOr<Drops> drops = ReadDrops(battle->own.get());
  absl::StatusOr<Counts> before = ReadCounts(battle->own.get());
  if (!drops.ok()) return battle->Unmet(drops.status());
  if (!before.ok()) return battle->Unmet(before.status());
  uint64_t replays = (*drops)["replayed"];
  const uint64_t first_sequence = battle->own->request().first_sequence + 1000;
  while (battle->own_calls < tries) {
    const uint64_t requests = std::min({tries - battle->own_calls, SequenceWindow::kWidth,
                                        uint64_t{(battle->geometry.cells() - kFirst) / 2}});
    std::vector<uint32_t> cells(2 * requests);
    std::iota(cells.begin(), cells.end(), kFirst);
    std::shuffle(cells.begin(), cells.end(), battle->random);
    for (const uint32_t cell : cells) {
      RequestHeader header =
          OwnRequest(battle, first_sequence + battle->own_calls + (cell - kFirst) / 2);
      header.function_id = battle->own->FunctionId("own_call");
      std::vector<std::byte> message = Encode(header, "");
      if (authenticator.has_value()) authenticator->Close(message.data(), 0);
      const bool left = Insist(battle, [&] {
        return attacker->Write(reply.request_window, battle->geometry.OffsetOf(cell), message,
                               OwnToken(*battle, cell));
      });
      if (!left) return battle->Unmet(absl::UnavailableError("the fabric takes no write"));
    }
    battle->own_calls += requests;
    replays += requests;
    absl::Status status = AwaitReplays(battle, attacker.get(), replays);
    if (!status.ok()) return battle->Unmet(status);
    std::shuffle(cells.begin(), cells.end(), battle->random);
    for (const uint32_t cell : cells) {
      const bool left = Insist(battle, [&] { return attacker->Ring(OwnToken(*battle, cell)); });
      if (!left) return battle->Unmet(absl::UnavailableError("the fabric takes no doorbell"));
    }
    replays += 2 * requests;
    status = AwaitReplays(battle, attacker.get(), replays);
    if (!status.ok()) return battle->Unmet(status);
  }
  const auto observer = RawSession::Open(battle->server, battle->provider);
  if (!observer.ok()) return battle->Unmet(observer.status());
  const absl::StatusOr<Counts> after = ReadCounts(observer->get());
  if (!after.ok()) return battle->Unmet(after.status());
  if (after->own - before->own != battle->own_calls) {
    battle->Unmet(absl::InternalError(absl::StrCat("of ", battle->own_calls, " requests ",
                                                   after->own - before->own, " have run")));
  }
}

// Answered, and not executed.
void UnknownFunctions(Battle* battle, uint64_t tries) {
  const size_t known = battle->own->reply().functions.size();
  for (uint64_t i = 0; i < tries; ++i) {
    const uint16_t id = static_cast<uint16_t>(known + battle->Random() % (0x10000 - known));
    battle->Demand(absl::StatusCode::kNotFound, battle->own->Run(id, "who", kPatience).status());
  }
}

void MalformedBulkRequests(Battle* battle, uint64_t tries) {
  for (uint64_t i = 0; i < tries; ++i) {
    std::string descriptor(kBulkDescriptorBytes, '\0');
    for (char& c : descriptor) c = static_cast<char>(battle->Random() >> (i % 3 * 20));
    ClientSession::Request request;
    request.function_id = battle->own->FunctionId("forged_call");
    request.flags = kBulk;
    descriptor.resize(i % 2 == 0 ? descriptor.size() : battle->Random() % descriptor.size());
    request.input = {reinterpret_cast<const std::byte*>(descriptor.data()), descriptor.size()};
    request.response_capacity = 256;
    request.deadline_ns = transport::MonotonicNs() + absl::ToInt64Nanoseconds(kPatience);
    Call* const call = battle->own->session().Start(request);
    if (call == nullptr) return battle->Unmet(absl::ResourceExhaustedError("no room for a call"));
    battle->Demand(absl::StatusCode::kInvalidArgument, battle->own->Await(call).status());
  }
}

// A sanitizer slows who floods as well.
bool FloodMustBeSeen() { return getenv("INVOKER_SANITIZER") == nullptr; }

// With nothing to transfer, as many at once as the window holds, again and again, and all answers
// in the same cells, with room for one: none of them has to wait for one before it, and none can
// leave with another. On a loaded machine, until the server has dropped some.
void FloodOfBulkRequests(Battle* battle, uint64_t tries) {
  constexpr uint64_t kWritten = 6;  // halves of the window, in a try
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  const uint32_t cells =
      battle->geometry.CellsFor(battle->geometry.MessageBytes(kBulkDescriptorBytes));
  const uint32_t messages = battle->geometry.cells() / 2 / cells;
  std::vector<std::byte> requests(battle->geometry.OffsetOf(messages * cells));
  uint64_t sequence = 1000;
  const absl::Time give_up = absl::Now() + kPatience;
  const auto dropped = [battle] {
    absl::StatusOr<Drops> drops = ReadDrops(battle->own.get());
    return drops.ok() ? (*drops)["too_many_calls"] + (*drops)["bad_tag"] : 0;
  };
  const uint64_t before = dropped();
  for (uint64_t i = 0; i < tries * kWritten || (tries > 0 && FloodMustBeSeen() &&
                                                dropped() == before && absl::Now() < give_up);
       ++i) {
    for (uint32_t message = 0; message < messages; ++message) {
      RequestHeader header = OwnRequest(battle, sequence++);
      header.function_id = battle->own->FunctionId("own_call");
      header.flags = kBulk | (message + 1 < messages ? kMoreFollows : 0);
      header.payload_bytes = kBulkDescriptorBytes;
      header.response_capacity = 0;
      Pack(header).CopyTo(requests.data() + battle->geometry.OffsetOf(message * cells));
    }
    attacker->Write(battle->own->reply().request_window, 0, requests, OwnToken(*battle, 0));
    attacker->Settle();
    battle->own->Poll();
    battle->own_calls += messages;
  }
}

void FloodOfRequests(Battle* battle, uint64_t tries) {
  const uint16_t own_call = battle->own->FunctionId("own_call");
  std::vector<Call*> calls;
  uint64_t started = 0;
  while (started < tries || !calls.empty()) {
    while (started < tries && calls.size() < 500) {
      Call* call = battle->own->Start(own_call, "flood", kPatience);
      if (call == nullptr) break;
      calls.push_back(call);
      ++started;
    }
    battle->own->Poll();
    calls.erase(std::remove_if(calls.begin(), calls.end(),
                               [battle](Call* call) {
                                 if (!call->ended()) return false;
                                 battle->Demand(absl::StatusCode::kOk, call->status);
                                 ++battle->own_calls;
                                 battle->own->session().Finish(call, false);
                                 return true;
                               }),
                calls.end());
  }
}

// Calls that are answered later, and here not before the end: the server keeps as many as it has
// room for, and refuses the others.
void RequestsThatWait(Battle* battle, uint64_t tries) {
  constexpr uint32_t kRoom = 1024;
  const std::unique_ptr<Attacker> attacker = battle->AgainstServer();
  for (uint64_t i = 0; i < tries; ++i) {
    RequestHeader header = OwnRequest(battle, 1000 + i);
    header.function_id = battle->own->FunctionId("own_keep");
    header.response_capacity = kRoom;
    WriteOwn(battle, attacker.get(), Encode(header, ""), i);
    battle->own->Poll();
  }
  attacker->Settle();
  // What was written is looked at before a call of a later session runs.
  auto other = RawSession::Open(battle->server, battle->provider);
  if (!other.ok()) return battle->Unmet(other.status());
  const auto answer = (*other)->Run((*other)->FunctionId("own_release"), "", kPatience);
  uint64_t kept = 0;
  if (!answer.ok() || answer->size() != sizeof(kept)) return battle->Unmet(answer.status());
  memcpy(&kept, answer->data(), sizeof(kept));
  if (battle->own->reply().data_auth != DataAuth::kOff) {
    return kept == 0 ? battle->Met() : battle->Unmet(absl::InternalError("no tag was asked for"));
  }
  if (kept == 0 || kept * kRoom > 2 * battle->geometry.window_bytes()) {
    return battle->Unmet(absl::InternalError(absl::StrCat(kept, " calls were kept")));
  }
  for (uint64_t i = 0; i < tries; ++i) battle->Met();
}

// Lengths and shapes that say more than there is, as the arguments of a typed function.
void ArgumentsThatAreNone(Battle* battle, uint64_t tries) {
  const uint16_t own_arrays = battle->own->FunctionId("own_arrays");
  for (uint64_t i = 0; i < tries; ++i) {
    std::string request(8 * (1 + battle->Random() % 40), '\0');
    for (size_t at = 0; at < request.size(); at += 8) {
      const uint64_t word =
          battle->Random() % 2 == 0 ? battle->Random() % 64 : uint64_t{1} << battle->Random() % 64;
      memcpy(&request[at], &word, sizeof(word));
    }
    // Arguments end at a multiple of 8 bytes.
    request += "more";
    battle->Demand(absl::StatusCode::kUnknown,
                   battle->own->Run(own_arrays, request, kPatience).status());
  }
}

// References to data that nobody has stored, as arguments of a typed function.
void ReferencesToNothing(Battle* battle, uint64_t tries) {
  const uint16_t own_arrays = battle->own->FunctionId("own_arrays");
  for (uint64_t i = 0; i < tries; ++i) {
    std::string request(8 + 8 * (battle->Random() % 8), '\0');
    for (size_t at = 0; at < request.size(); at += 8) {
      const uint64_t word = at == 0 ? kReferenceMark : battle->Random();
      memcpy(&request[at], &word, sizeof(word));
    }
    battle->Demand(absl::StatusCode::kUnknown,
                   battle->own->Run(own_arrays, request, kPatience).status());
  }
}

// An address like this one, at which nobody is.
std::string AnotherAddress(const std::string& provider, const std::string& address,
                           uint16_t which) {
  const transport::ProfileRow& row = transport::FindRow(provider);
  if (row.address_is_ip) {
    std::string other = address;
    const uint16_t port = htons(which);
    memcpy(&other[offsetof(sockaddr_in, sin_port)], &port, sizeof(port));
    return other;
  }
  if (row.file_scheme.empty()) {
    // A GID, and behind it the number of a queue pair.
    constexpr size_t kGidBytes = 16;
    std::string other = address;
    memcpy(&other[kGidBytes], &which, sizeof(which));
    return other;
  }
  // A name.
  return absl::StrCat(address.c_str(), "-", which, absl::string_view("", 1));
}

// Opens as many sessions of one lease as the server opens, and more, each at an address of its own
// and with the largest windows and copies. They are held until the attack is judged: others get
// sessions all the same.
void ManySessionsOfOneLease(Battle* battle, uint64_t tries) {
  constexpr uint64_t kSessions = 300;  // more peers than an executor can have on some fabrics
  auto holder = RawSession::Open(battle->server, battle->provider);
  if (!holder.ok()) return battle->Unmet(holder.status());
  bootstrap::OpenSessionRequest request = (*holder)->request();
  const std::string own = request.endpoint_address;
  request.session_token.clear();
  request.data_auth = DataAuth::kFull;
  bool full = false;
  for (uint64_t i = 0; i < tries * kSessions; ++i) {
    request.endpoint_address =
        AnotherAddress(battle->provider, own, static_cast<uint16_t>(20'000 + i));
    const absl::Status opened =
        (*holder)->bootstrap().OpenSession((*holder)->lease(), request, kPatience).status();
    // Once there are too many, there are.
    full = full || !opened.ok();
    battle->Demand(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk, opened);
  }
  if (!full) battle->Unmet(absl::InternalError("every session was opened"));
  battle->held.push_back(*std::move(holder));
}

// A session of another lease whose answers would go to the victim's endpoint, with a key that is
// none: what the fabric makes of such a write may cost the server its connection to the victim.
void SessionsAtTheVictimsEndpoint(Battle* battle, uint64_t tries) {
  auto lease = bootstrap::Lease::Acquire(&battle->own->bootstrap(), {}, {}, kPatience);
  if (!lease.ok()) return battle->Unmet(lease.status());
  for (uint64_t i = 0; i < tries; ++i) {
    bootstrap::OpenSessionRequest request = battle->own->request();
    request.session_token.clear();
    request.endpoint_address = battle->victim.endpoint;
    request.response_window = battle->victim.response_window;
    request.response_window.key ^= 0x1234567;
    request.response_session = battle->victim.response_session;
    battle->Demand(
        absl::StatusCode::kAlreadyExists,
        battle->own->bootstrap().OpenSession((*lease)->id(), request, kPatience).status());
  }
}

// Sessions at one endpoint under two addresses: those that read a name up to its first NUL have one
// peer for both, and the end of one session would take it from the other.
void OneEndpointUnderTwoAddresses(Battle* battle, uint64_t tries) {
  for (uint64_t i = 0; i < tries; ++i) {
    bootstrap::OpenSessionRequest request = battle->own->request();
    request.session_token.clear();
    request.endpoint_address.append("x\0", 2);
    battle->Demand(
        absl::StatusCode::kInvalidArgument,
        battle->own->bootstrap().OpenSession(battle->own->lease(), request, kPatience).status());
  }
}

}  // namespace

std::vector<Attack> AttacksFromASession() {
  return {
      {.name = "half-written messages",
       .knows = "own session",
       .run = HalfWrittenMessages,
       .seen = {"wrong_epoch"}},
      {.name = "arguments that are none", .knows = "own session", .run = ArgumentsThatAreNone},
      {.name = "references to nothing", .knows = "own session", .run = ReferencesToNothing},
      {.name = "lengths beyond the window",
       .knows = "own session",
       .run = LengthsBeyondTheWindow,
       .seen = {"outside_window", "bad_response_run"}},
      {.name = "cells beyond the window",
       .knows = "own session",
       .run = CellsBeyondTheWindow,
       .seen = {"fabric"},
       .seen_unconnected = {"unconfirmed"},
       .most = 150},
      {.name = "replays in any order",
       .knows = "own session",
       .run = ReplaysInAnyOrder,
       .seen = {"replayed"}},
      {.name = "unknown functions",
       .knows = "own session",
       .run = UnknownFunctions,
       .seen = {"unknown_function"}},
      {.name = "malformed bulk requests",
       .knows = "own session",
       .run = MalformedBulkRequests,
       .seen = {"invalid_request"}},
      {.name = "a flood of requests", .knows = "own session", .run = FloodOfRequests},
      {.name = "requests that are answered later",
       .knows = "own session",
       .run = RequestsThatWait,
       .seen_with_tags = {"bad_tag"},
       .least = 300},
      {.name = "many sessions of one lease",
       .knows = "own session",
       .run = ManySessionsOfOneLease,
       .most = 1},
      {.name = "sessions at the victim's endpoint",
       .knows = "own session",
       .run = SessionsAtTheVictimsEndpoint,
       .most = 20},
      {.name = "one endpoint under two addresses",
       .knows = "own session",
       .run = OneEndpointUnderTwoAddresses,
       .most = 20},
      {.name = "a flood of bulk requests",
       .knows = "own session",
       .run = FloodOfBulkRequests,
       .seen = {FloodMustBeSeen() ? "too_many_calls" : "own calls"},
       .seen_with_tags = {"bad_tag"},
       .most = 5},
  };
}

}  // namespace invoker::hostile
