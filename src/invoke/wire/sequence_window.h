// Tells a request that was not seen before from a replay, on fabrics that may reorder writes: a
// sliding bitmap over 64-bit sequence numbers, as in IPsec's anti-replay, compared by serial
// arithmetic so that nothing special happens when they wrap.
//
// A value, one per session and direction. Not thread-safe: the session's driver calls it.

#ifndef INVOKER_SRC_INVOKE_WIRE_SEQUENCE_WINDOW_H_
#define INVOKER_SRC_INVOKE_WIRE_SEQUENCE_WINDOW_H_

#include <array>
#include <cstdint>

namespace invoker {

class SequenceWindow {
 public:
  // How far behind the highest accepted sequence one can still be told from a replay. A power of
  // two, so that a sequence's place in the bitmap stays right over the wrap.
  static constexpr uint64_t kWidth = 4096;

  // How far ahead of the highest accepted sequence one may be. A correct sender has at most 16384
  // requests (one for each cell of a window) under way, so lost and refused ones leave this bound
  // ample room; a random 64-bit number passes it once in 2^44 times, so garbage cannot move the
  // window past the honest requests that follow. It is no defence against a forger who knows the
  // sequence.
  static constexpr uint64_t kMaxAdvance = uint64_t{1} << 20;

  enum class Verdict : uint8_t {
    kNew,       // accepted, and from now on a replay
    kReplayed,  // was accepted before, or precedes the first expected one
    kTooOld,    // kWidth or more behind: cannot be told, so it must be refused
    kTooFar,    // more than kMaxAdvance ahead
  };

  // Sequences before `first_expected` count as seen.
  explicit SequenceWindow(uint64_t first_expected) : highest_(first_expected - 1) {
    seen_.fill(~uint64_t{0});
  }

  // What Accept would say. Changes nothing.
  [[nodiscard]] Verdict Judge(uint64_t sequence) const;

  // Judges a sequence. Only kNew changes anything.
  [[nodiscard]] Verdict Accept(uint64_t sequence) {
    if (sequence != highest_ + 1) return AcceptOutOfOrder(sequence);
    // Its bit is that of the sequence kWidth before, which drops out right now: nothing to clear.
    Mark(sequence);
    return Verdict::kNew;
  }

  // The sequence nearest to the highest accepted one that has these low bits.
  uint64_t Nearest(uint16_t low_bits) const {
    const auto ahead = static_cast<int16_t>(low_bits - static_cast<uint16_t>(highest_));
    return highest_ + static_cast<uint64_t>(int64_t{ahead});
  }

  // Whether it was accepted, or can be accepted no more.
  bool Seen(uint64_t sequence) const {
    const int64_t ahead = static_cast<int64_t>(sequence - highest_);
    if (ahead > 0) return false;
    if (-ahead >= static_cast<int64_t>(kWidth)) return true;
    return (seen_[sequence % kWidth / kWordBits] >> (sequence % kWordBits) & 1) != 0;
  }

 private:
  static constexpr uint64_t kWordBits = 64;

  void Mark(uint64_t sequence) {
    seen_[sequence % kWidth / kWordBits] |= uint64_t{1} << (sequence % kWordBits);
    highest_ = sequence;
  }

  Verdict AcceptOutOfOrder(uint64_t sequence);
  void ForgetAfterHighest(uint64_t count);

  uint64_t highest_;  // highest accepted
  std::array<uint64_t, kWidth / kWordBits>
      seen_;  // bit (s % kWidth) for s in (highest_ - kWidth, highest_]
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WIRE_SEQUENCE_WINDOW_H_
