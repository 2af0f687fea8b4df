#include "src/invoke/session/cell_allocator.h"

#include <algorithm>

namespace invoker {
namespace {

constexpr uint32_t kWordBits = CellAllocator::kWordBits;
constexpr uint64_t kAllFree = ~uint64_t{0};

// `count` set bits from bit `offset`; offset < 64, 1 <= count <= 64 - offset.
constexpr uint64_t Mask(uint32_t offset, uint32_t count) {
  return (kAllFree >> (kWordBits - count)) << offset;
}

// The bits of `word` at which `run` set bits begin, 1 <= run <= 64. Each round doubles the length
// that is known to be set, so six rounds at most.
uint64_t StartsOfRuns(uint64_t word, uint32_t run) {
  uint32_t known = 1;
  while (word != 0 && known < run) {
    const uint32_t step = std::min(known, run - known);
    word &= word >> step;
    known += step;
  }
  return word;
}

// The words that a run touches: masks of the first and of the last, which may be the same word, and
// whole words between.
struct Words {
  Words(uint32_t first, uint32_t run)
      : begin(first / kWordBits), last((first + run - 1) / kWordBits) {
    first_mask = kAllFree << (first % kWordBits);
    last_mask = kAllFree >> (kWordBits - 1 - (first + run - 1) % kWordBits);
    if (begin == last) first_mask = last_mask = first_mask & last_mask;
  }

  size_t begin;
  size_t last;
  uint64_t first_mask;
  uint64_t last_mask;
};

}  // namespace

CellAllocator::CellAllocator(uint32_t cells)
    : cells_(cells), free_cells_(cells), free_(cells / kWordBits + 1, kAllFree) {
  // The last word has no cell, or not all.
  const uint32_t rest = cells % kWordBits;
  free_.back() = rest == 0 ? 0 : Mask(0, rest);
}

std::optional<uint32_t> CellAllocator::AllocateRun(uint32_t run) {
  if (run == 0 || run > free_cells_) return std::nullopt;
  ReturnSpare();
  while (free_[lowest_] == 0) ++lowest_;  // ends: some cell is free
  uint32_t below = 0;                     // free cells that end where this word begins
  for (size_t i = lowest_; i < free_.size(); ++i) {
    const uint64_t word = free_[i];
    const uint32_t base = static_cast<uint32_t>(i) * kWordBits;
    if (word == kAllFree) {
      below += kWordBits;
      if (below >= run) {
        const uint32_t first = base + kWordBits - below;
        Take(first, run);
        return first;
      }
      continue;
    }
    // A run that began in an earlier word lies lower than any within this one.
    if (below + static_cast<uint32_t>(__builtin_ctzll(~word)) >= run) {
      Take(base - below, run);
      return base - below;
    }
    const uint64_t starts = run < kWordBits ? StartsOfRuns(word, run) : 0;
    if (starts != 0) {
      const uint32_t first = base + static_cast<uint32_t>(__builtin_ctzll(starts));
      Take(first, run);
      return first;
    }
    below = static_cast<uint32_t>(__builtin_clzll(~word));
  }
  return std::nullopt;
}

std::optional<uint32_t> CellAllocator::AllocateHighest(uint32_t run) {
  if (run == 0 || run > free_cells_) return std::nullopt;
  ReturnSpare();
  for (uint32_t first = cells_ - run;; --first) {
    if (IsFree(first, run)) {
      Take(first, run);
      return first;
    }
    if (first == 0) return std::nullopt;
  }
}

// While there is no spare run.
bool CellAllocator::IsFree(uint32_t first, uint32_t run) const {
  const Words words(first, run);
  uint64_t taken =
      (~free_[words.begin] & words.first_mask) | (~free_[words.last] & words.last_mask);
  for (size_t i = words.begin + 1; i < words.last; ++i) taken |= ~free_[i];
  return taken == 0;
}

void CellAllocator::Take(uint32_t first, uint32_t run) {
  const Words words(first, run);
  free_[words.begin] &= ~words.first_mask;
  for (size_t i = words.begin + 1; i < words.last; ++i) free_[i] = 0;
  free_[words.last] &= ~words.last_mask;
  free_cells_ -= run;
}

// Frees a run in bounds that reaches over a word's end.
bool CellAllocator::FreeWords(uint32_t first, uint32_t run) {
  const Words words(first, run);
  uint64_t already_free =
      (free_[words.begin] & words.first_mask) | (free_[words.last] & words.last_mask);
  for (size_t i = words.begin + 1; i < words.last; ++i) already_free |= free_[i];
  if (already_free != 0 || OverlapsSpare(first, run)) return false;
  ReturnSpare();
  spare_first_ = first;
  spare_cells_ = run;
  free_cells_ += run;
  return true;
}

// Shows the spare run in the bitmap.
void CellAllocator::ReturnSpare() {
  if (spare_cells_ == 0) return;
  const Words words(spare_first_, spare_cells_);
  free_[words.begin] |= words.first_mask;
  for (size_t i = words.begin + 1; i < words.last; ++i) free_[i] = kAllFree;
  free_[words.last] |= words.last_mask;
  lowest_ = std::min(lowest_, words.begin);
  spare_cells_ = 0;
}

}  // namespace invoker
