#include "src/invoke/wire/sequence_window.h"

#include <algorithm>

namespace invoker {

SequenceWindow::Verdict SequenceWindow::Judge(uint64_t sequence) const {
  const uint64_t ahead =
      sequence - highest_;  // modulo 2^64: half of the circle is ahead, half behind
  const uint64_t behind = highest_ - sequence;
  if (ahead != 0 && ahead < behind) return ahead > kMaxAdvance ? Verdict::kTooFar : Verdict::kNew;
  if (behind >= kWidth) return Verdict::kTooOld;
  const uint64_t word = seen_[sequence % kWidth / kWordBits];
  const uint64_t bit = uint64_t{1} << (sequence % kWordBits);
  return (word & bit) != 0 ? Verdict::kReplayed : Verdict::kNew;
}

SequenceWindow::Verdict SequenceWindow::AcceptOutOfOrder(uint64_t sequence) {
  const Verdict verdict = Judge(sequence);
  if (verdict != Verdict::kNew) return verdict;
  const uint64_t ahead = sequence - highest_;
  if (ahead <= kMaxAdvance) {
    ForgetAfterHighest(ahead - 1);
    Mark(sequence);
  } else {
    seen_[sequence % kWidth / kWordBits] |= uint64_t{1} << (sequence % kWordBits);
  }
  return Verdict::kNew;
}

// Clears the bits of the `count` sequences that follow the highest: they still hold what was seen
// kWidth earlier.
void SequenceWindow::ForgetAfterHighest(uint64_t count) {
  if (count >= kWidth) {
    seen_.fill(0);
    return;
  }
  uint64_t next = highest_ + 1;
  while (count > 0) {
    const uint64_t offset = next % kWordBits;
    const uint64_t bits = std::min(count, kWordBits - offset);
    seen_[next % kWidth / kWordBits] &= ~((~uint64_t{0} >> (kWordBits - bits)) << offset);
    next += bits;
    count -= bits;
  }
}

}  // namespace invoker
