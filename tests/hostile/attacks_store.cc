// Attacks on data stores, of a client that has a session of its own.

#include <cstring>
#include <memory>
#include <string>

#include "src/invoke/wire/store_request.h"
#include "tests/hostile/attacks.h"

namespace invoker::hostile {
namespace {

std::string AnyRequest(Battle* battle) {
  std::string request(battle->Random() % 200, '\0');
  for (char& byte : request) byte = static_cast<char>(battle->Random());
  return request;
}

// Requests to a data store, which only the executors of a lease have, of any kind and content.
void DataThatNobodyStores(Battle* battle, uint64_t tries) {
  for (uint64_t i = 0; i < tries; ++i) {
    const std::string request = AnyRequest(battle);
    const auto operation = static_cast<uint16_t>(battle->Random() % 3);
    battle->Demand(absl::StatusCode::kInvalidArgument,
                   battle->own->Run(operation, request, kPatience, kStore).status());
  }
}

std::string PutOf(uint64_t id, size_t value_bytes) {
  constexpr char kType[] = "f64[:]";
  DataId name = {};
  memcpy(name.data(), &id, sizeof(id));
  std::string request(PutHeadBytes(kType) + value_bytes, '\0');
  EncodePutHead(name, kType, reinterpret_cast<std::byte*>(request.data()));
  return request;
}

// The same of a lease's executor, which has such a store, and between them what it must do. Then
// more than there is room for, which the lease's end gives back.
void DataInALeasedStore(Battle* battle, uint64_t tries) {
  constexpr auto kPut = static_cast<uint16_t>(StoreOperation::kPut);
  constexpr auto kFree = static_cast<uint16_t>(StoreOperation::kFree);
  constexpr size_t kMiB = 1 << 20;
  if (tries == 0) return;
  LeaseTerms terms;
  terms.executors = 1;
  terms.memory_bytes = 256 * kMiB;  // also for a fabric that is emulated in the executor
  terms.wait = kPatience;
  auto own = RawSession::Open(battle->server, battle->provider, terms);
  if (!own.ok()) return battle->Unmet(own.status());
  const auto demand = [&](absl::StatusCode code, uint16_t operation, const std::string& request,
                          uint8_t flags = 0) {
    battle->Demand(code, (*own)->Run(operation, request, kPatience, kStore | flags).status());
  };
  const std::string kept = PutOf(/*id=*/0, /*value_bytes=*/80);
  demand(absl::StatusCode::kOk, kPut, kept);
  for (uint64_t i = 0; i < tries; ++i) {
    const std::string request = AnyRequest(battle);
    const auto number = static_cast<uint16_t>(2 + battle->Random() % 0xfffe);
    const std::string put = PutOf(1 + i, battle->Random() % 1000);
    demand(absl::StatusCode::kInvalidArgument, kPut, request);
    demand(absl::StatusCode::kInvalidArgument, kFree, request.substr(0, request.size() % 16));
    demand(absl::StatusCode::kInvalidArgument, number, put);
    demand(absl::StatusCode::kInvalidArgument, kPut, request, kBulk);
    // Its type does not fit.
    demand(absl::StatusCode::kInvalidArgument, kPut, put.substr(0, sizeof(DataId) + 8 + i % 8));
    demand(absl::StatusCode::kOk, kPut, put);
    demand(absl::StatusCode::kInvalidArgument, kPut, put);
    demand(absl::StatusCode::kOk, kFree, put.substr(0, sizeof(DataId)));
    demand(absl::StatusCode::kOk, kFree, put.substr(0, sizeof(DataId)));
    demand(absl::StatusCode::kInvalidArgument, kPut, kept);
  }
  absl::Status full;
  for (uint64_t i = 0; full.ok() && i < 256; ++i) {
    full = (*own)->Run(kPut, PutOf(tries + 1 + i, kMiB), kPatience, kStore).status();
  }
  battle->Demand(absl::StatusCode::kResourceExhausted, full);
  own->reset();
  own = RawSession::Open(battle->server, battle->provider, terms);
  if (!own.ok()) return battle->Unmet(own.status());
  demand(absl::StatusCode::kOk, kPut, PutOf(/*id=*/0, kMiB));
}

}  // namespace

std::vector<Attack> AttacksOnAStore() {
  return {
      {.name = "data that nobody stores",
       .knows = "own session",
       .run = DataThatNobodyStores,
       .seen = {"invalid_request"}},
      {.name = "data in a leased store",
       .knows = "own session",
       .run = DataInALeasedStore,
       .most = 200},
  };
}

}  // namespace invoker::hostile
