// Injected faults. A seed decides when they strike, so that a run can be repeated.
//
// The text is a comma-separated list, in INVOKER_EFA_DEVICE_FAULTS:
//   seed=N        of all decisions (default 0)
//   delay_us=N    how long a delayed frame waits, and a reordered one at most (default 200)
//   log=1         writes every fault to the standard error
//   FAULT=RATE    strikes on RATE of 1000 occasions
//   FAULT=RATE/N  the same, N times in a process at most
// The faults are listed at Fault.

#ifndef INVOKER_TESTS_EFA_DEVICE_FAULTS_H_
#define INVOKER_TESTS_EFA_DEVICE_FAULTS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace efa_device {

enum class Fault : uint8_t {
  kReorder,        // "reorder": a frame is sent after one to eight later ones
  kDelay,          // "delay": a frame is sent late
  kNotReady,       // "rnr": the target has no receive posted for a message
  kBadKey,         // "bad_key": the target does not know the key of a read or write
  kBadAddress,     // "bad_address": nobody answers at the GID
  kDeadPeer,       // "dead_peer": the queue pair is gone
  kAddressHandle,  // "address_handle": none can be created
  kSendFull,       // "send_full": the send queue is full
  kReceiveFull,    // "receive_full": the receive queue is full
};
constexpr size_t kFaultKinds = 9;

class Faults {
 public:
  // Null if the text is wrong; then `error` says why.
  static std::unique_ptr<Faults> Parse(const std::string& text, std::string* error);

  std::chrono::microseconds delay() const { return delay_; }

  // The decisions for one queue pair or connection. They depend on the seed, the stream's number
  // and how many decisions of the kind were made before; not on time.
  class Stream {
   public:
    // `faults` must outlive the stream.
    Stream(Faults* faults, uint64_t number) : faults_(faults), number_(number) {}

    // Decides about the next occasion for this fault.
    bool Strikes(Fault fault);
    // A number below `bound` that belongs to the last decision.
    uint64_t Draw(Fault fault, uint64_t bound) const;
    std::chrono::microseconds delay() const { return faults_->delay_; }
    // A stream of the same faults for a part of this one.
    Stream Part(uint64_t part) const;

   private:
    Faults* faults_;
    uint64_t number_;
    std::array<uint64_t, kFaultKinds> occasions_ = {};
  };

 private:
  struct Rule {
    uint64_t rate = 0;  // per 1000
    std::atomic<int64_t> budget{INT64_MAX};
  };
  Faults() = default;

  uint64_t seed_ = 0;
  bool log_ = false;
  std::chrono::microseconds delay_{200};
  std::array<Rule, kFaultKinds> rules_;
};

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_FAULTS_H_
