#include "tests/contract_providers/core/freedoms.h"

#include <algorithm>
#include <utility>

#include "tests/contract_providers/core/prng.h"

namespace contract {
namespace {

// Each question about a fate has a stream of its own, so that one answer does not shift the others.
enum Stream : uint64_t { kPost = 1, kStorm, kPlace, kService, kGarbage };

constexpr uint64_t kMostPieces = 8;
// Later than the first posts, a refusal is seldom.
constexpr uint64_t kRefuseOneIn = 48;
// Decisions that are kept to be asked for.
constexpr size_t kDecisionsKept = 65536;

uint32_t SomePolls(Prng* prng, uint32_t most) {
  // Half of the operations take no time at all: the shortest way is a freedom like the others.
  if (most == 0 || prng->OneIn(2)) return 0;
  return static_cast<uint32_t>(prng->Between(1, most));
}

}  // namespace

uint64_t Freedoms::Mix64(uint64_t a, uint64_t b) { return Mix(a, b); }

Placement PlacementOf(const Config& config, uint64_t fate_seed, uint64_t length) {
  Prng prng(Mix(fate_seed, kPlace));
  const uint32_t most = config.late ? config.lateness : 0;
  Placement placement;
  uint64_t count = 1;
  if (config.pieces && length >= 2 && !prng.OneIn(4)) {
    count = prng.Between(2, std::min(kMostPieces, length));
  }
  // Cut anywhere, aligned or not.
  std::vector<uint64_t> cuts = {0, length};
  while (cuts.size() < count + 1) {
    const uint64_t cut = prng.Between(1, length - 1);
    if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
  }
  std::sort(cuts.begin(), cuts.end());
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    placement.pieces.push_back({cuts[i], cuts[i + 1] - cuts[i], 0});
  }
  if (count > 1) {
    if (prng.OneIn(4)) {
      std::reverse(placement.pieces.begin(), placement.pieces.end());
    } else {
      for (size_t i = placement.pieces.size() - 1; i > 0; --i) {
        std::swap(placement.pieces[i], placement.pieces[prng.Below(i + 1)]);
      }
    }
  }
  for (Piece& piece : placement.pieces) piece.polls = SomePolls(&prng, most);
  placement.immediate_polls = config.completions ? SomePolls(&prng, most) : 0;
  return placement;
}

uint32_t ServicePolls(const Config& config, uint64_t fate_seed) {
  Prng prng(Mix(fate_seed, kService));
  return config.late ? SomePolls(&prng, config.lateness) : 0;
}

uint64_t Garbage(uint64_t fate_seed, uint64_t field) {
  return Mix(Mix(fate_seed, kGarbage), field);
}

uint32_t Freedoms::NextStorm() {
  Prng prng(Mix(Mix(seed_, kStorm), peers_++));
  return config_.again ? static_cast<uint32_t>(prng.Between(0, config_.storm)) : 0;
}

bool Freedoms::Draw(uint32_t* storm, uint64_t length, Fate* fate) {
  Decision decision;
  decision.call = calls_++;
  fate->seed = Mix(Mix(seed_, kPost), decision.call);
  Prng prng(fate->seed);
  const bool refuse_now = prng.OneIn(kRefuseOneIn);
  if (*storm > 0) {
    --*storm;
    decision.refused = true;
  } else {
    decision.refused = config_.again && refuse_now;
  }
  fate->leave_polls = config_.late ? SomePolls(&prng, config_.lateness) : 0;
  fate->complete_polls = config_.completions ? SomePolls(&prng, config_.lateness) : 0;
  fate->early = config_.completions && !prng.OneIn(4);
  decision.fate = fate->seed;
  decision.leave_polls = fate->leave_polls;
  decision.complete_polls = fate->complete_polls;
  decision.early = fate->early;
  if (!decision.refused) {
    decision.pieces = static_cast<uint32_t>(PlacementOf(config_, fate->seed, length).pieces.size());
  }
  if (decisions_.size() == kDecisionsKept) decisions_.pop_front();
  decisions_.push_back(decision);
  if (decision.refused) ++refused_;
  return !decision.refused;
}

size_t Freedoms::Decisions(Decision* out, size_t count) const {
  const size_t told = std::min(count, decisions_.size());
  std::copy(decisions_.end() - static_cast<std::ptrdiff_t>(told), decisions_.end(), out);
  return told;
}

}  // namespace contract
