// What the attacked server says of itself: how often its functions have run, and what it dropped.

#ifndef INVOKER_TESTS_HOSTILE_SERVER_STATE_H_
#define INVOKER_TESTS_HOSTILE_SERVER_STATE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "tests/hostile/raw_session.h"

namespace invoker::hostile {

// Dropped messages, by reason.
using Drops = std::map<std::string, uint64_t>;

// How often functions have run.
struct Counts {
  uint64_t honest = 0;
  uint64_t own = 0;
  uint64_t forged = 0;
};

absl::StatusOr<Counts> ReadCounts(RawSession* session);

absl::StatusOr<Drops> ReadDrops(RawSession* session);

// Until the server has nothing left of the attack: its counters stand still over several calls.
absl::StatusOr<Drops> AwaitRest(RawSession* session);

}  // namespace invoker::hostile

#endif  // INVOKER_TESTS_HOSTILE_SERVER_STATE_H_
