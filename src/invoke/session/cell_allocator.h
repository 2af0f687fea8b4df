// Which cells of a window are free. Free cells are a session's credits: a call that gets none has
// to wait.
//
// Runs are granted lowest address first. That keeps the cells in use few and warm in the cache, and
// puts messages that are encoded one after the other side by side, so that they can leave in one
// write. Only a long run that has just been freed is granted again before others, to a call that
// needs one as long: most calls are like the one before.
//
// Owns only its bitmap. Not thread-safe: the session's driver calls it. Allocates memory in
// the constructor and never again.

#ifndef INVOKER_SRC_INVOKE_SESSION_CELL_ALLOCATOR_H_
#define INVOKER_SRC_INVOKE_SESSION_CELL_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace invoker {

class CellAllocator {
 public:
  // The bitmap's.
  static constexpr uint32_t kWordBits = 64;

  // All of `cells` cells are free at first.
  explicit CellAllocator(uint32_t cells);

  // The first cell of the lowest run of `run` adjacent free cells, now taken; nothing if there is
  // none or `run` is 0. Looks at 64 cells a step, from the lowest that is free.
  std::optional<uint32_t> Allocate(uint32_t run) {
    if (run == spare_cells_ && run != 0) return TakeSpare();
    uint64_t& word = free_[lowest_];
    if (run != 1 || word == 0) return AllocateRun(run);
    const uint32_t bit = static_cast<uint32_t>(__builtin_ctzll(word));
    word &= word - 1;
    --free_cells_;
    return static_cast<uint32_t>(lowest_) * kWordBits + bit;
  }

  // The same from the highest run: it may be kept for long without breaking up the cells that
  // others are granted. Slow where the window is nearly full.
  std::optional<uint32_t> AllocateHighest(uint32_t run);

  // Gives back `run` cells from `first`, which may be a part of a run or several. Returns false,
  // and changes nothing, if any of them is free already or outside the window, or if `run` is 0.
  [[nodiscard]] bool Free(uint32_t first, uint32_t run) {
    if (run == 0 || run > cells_ || first > cells_ - run) return false;
    const uint32_t offset = first % kWordBits;
    if (offset + run > kWordBits) return FreeWords(first, run);
    const uint64_t mask = (~uint64_t{0} >> (kWordBits - run)) << offset;
    const size_t index = first / kWordBits;
    if ((free_[index] & mask) != 0 || OverlapsSpare(first, run)) return false;
    free_[index] |= mask;
    free_cells_ += run;
    if (index < lowest_) lowest_ = index;
    return true;
  }

  uint32_t cells() const { return cells_; }
  uint32_t free_cells() const { return free_cells_; }

 private:
  uint32_t TakeSpare() {
    free_cells_ -= spare_cells_;
    spare_cells_ = 0;
    return spare_first_;
  }

  std::optional<uint32_t> AllocateRun(uint32_t run);
  bool FreeWords(uint32_t first, uint32_t run);
  void ReturnSpare();
  bool OverlapsSpare(uint32_t first, uint32_t run) const {
    return first < spare_first_ + spare_cells_ && spare_first_ < first + run && spare_cells_ != 0;
  }
  bool IsFree(uint32_t first, uint32_t run) const;
  void Take(uint32_t first, uint32_t run);

  uint32_t cells_;
  uint32_t free_cells_;
  // A run of free cells that the bitmap does not show as free.
  uint32_t spare_first_ = 0;
  uint32_t spare_cells_ = 0;
  size_t lowest_ = 0;           // no word below this one has a free cell
  std::vector<uint64_t> free_;  // a set bit is a free cell; bits past the last cell stay 0
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CELL_ALLOCATOR_H_
