// Every decision that a contract leaves open, from one seed.
//
// The initiator draws an operation's fate when it is posted; the fate travels with the operation,
// so that what the target does with it is as repeatable as what the initiator does, whenever either
// of them polls.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_FREEDOMS_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_FREEDOMS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "tests/contract_providers/core/config.h"
#include "tests/contract_providers/core/control.h"

namespace contract {

// What happens to one operation.
struct Fate {
  uint64_t seed = 0;
  uint32_t leave_polls = 0;
  uint32_t complete_polls = 0;
  bool early = false;
};

// One part of a write: bytes [offset, offset + length), placed `polls` polls after the part before.
struct Piece {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t polls = 0;
};

// What the target does with a write.
struct Placement {
  std::vector<Piece> pieces;     // in the order in which they are placed
  uint32_t immediate_polls = 0;  // after the last piece
};

Placement PlacementOf(const Config& config, uint64_t fate_seed, uint64_t length);
// Polls of the target before it looks at a read or an atomic.
uint32_t ServicePolls(const Config& config, uint64_t fate_seed);
// A value for a field that the contract says nothing about.
uint64_t Garbage(uint64_t fate_seed, uint64_t field);

class Freedoms {
 public:
  Freedoms(const Config& config, uint64_t endpoint_number)
      : config_(config), seed_(Mix64(config.seed, endpoint_number)) {}

  // How many of the first posts to the next new peer are refused.
  uint32_t NextStorm();

  // Draws for one call that posts. `storm` is the peer's remaining refusals. False: refuse it.
  bool Draw(uint32_t* storm, uint64_t length, Fate* fate);

  size_t Decisions(Decision* out, size_t count) const;
  uint64_t refused() const { return refused_; }

 private:
  static uint64_t Mix64(uint64_t a, uint64_t b);

  const Config& config_;
  uint64_t seed_;
  uint64_t calls_ = 0;
  uint64_t peers_ = 0;
  uint64_t refused_ = 0;
  std::deque<Decision> decisions_;
};

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_FREEDOMS_H_
