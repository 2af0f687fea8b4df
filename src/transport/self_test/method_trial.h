// Finds up to which length a message is faster in injected pieces than in one write.
//
// Pieces cost both ends a copy; one write costs the receiver a look at the sender's pages. Which is
// faster depends on the processors that the two ends run on, so it is measured there: round trips
// of each length, in pieces and in one write by turns.
//
// Pure logic. The owner makes the round trips that Next asks for, and tells what each has taken.
// One thread.

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_METHOD_TRIAL_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_METHOD_TRIAL_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace invoker::transport {

// The medians of one length.
struct MethodTimes {
  uint64_t bytes = 0;  // payload
  int64_t pieces_ns = 0;
  int64_t write_ns = 0;
};

class MethodTrial {
 public:
  // The longest payload that is tried: so many times what the provider injects.
  static constexpr uint64_t kLongest = 16;
  // Round trips of each length and each way: the first ones find caches cold and are not counted.
  static constexpr uint32_t kWarmUps = 2;
  static constexpr uint32_t kRounds = 12;
  // Pieces must win by so much. In a tie the single write is better: the receiver polls once for
  // it, and has no bytes of its own to copy while other peers wait.
  static constexpr int64_t kLeastGainPercent = 5;
  // A trial that takes longer ends. What it has decided by then stands.
  static constexpr int64_t kLimitNs = 10'000'000;

  // Tries 2, 4, 8 and 16 times `inject_bytes`, as far as `most_bytes`. Begins now.
  MethodTrial(uint64_t inject_bytes, uint64_t most_bytes, int64_t now_ns);

  // One round trip: so many bytes of payload, both ways, in pieces or in one write.
  struct Round {
    uint64_t bytes;
    bool pieces;
  };
  // The round trip to make next; nothing once the trial is over.
  std::optional<Round> Next(int64_t now_ns) const;
  // How long the one that Next asked for has taken.
  void Add(int64_t ns);

  // Payloads of up to so many bytes go in pieces; 0: none does. It may grow until the trial is
  // over.
  uint64_t pieces_up_to() const { return pieces_up_to_; }
  // Every length that has been decided, shortest first. Empty: nothing is known.
  const std::vector<MethodTimes>& times() const { return times_; }

 private:
  void Decide();

  const uint64_t most_bytes_;
  const int64_t end_ns_;
  uint64_t bytes_;              // being tried
  std::vector<int64_t> ns_[2];  // times of that length: one write, and pieces
  uint32_t made_ = 0;
  bool lost_ = false;
  uint64_t pieces_up_to_ = 0;
  std::vector<MethodTimes> times_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_METHOD_TRIAL_H_
