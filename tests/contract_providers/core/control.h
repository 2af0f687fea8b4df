// What a test may ask an endpoint of an emulated fabric, beyond libfabric: its decisions and what
// came of them. Got with fi_open_ops(&endpoint->fid, kControlName, 0, &ops, nullptr).

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_CONTROL_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_CONTROL_H_

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

namespace contract {

inline constexpr char kControlName[] = "contract_control/1";

// One decision about one call that posts. Calls are counted from 0, refused ones included, so the
// decisions of a run are a function of the seed and the sequence of calls.
struct Decision {
  uint64_t call = 0;
  bool refused = false;         // -FI_EAGAIN
  uint32_t leave_polls = 0;     // the initiator's polls before it leaves
  uint32_t complete_polls = 0;  // and before the completion is told
  bool early = false;           // completes before it is placed
  uint32_t pieces = 0;          // a write's, at the target
  uint64_t fate = 0;            // the seed of everything else about it

  friend bool operator==(const Decision& a, const Decision& b) {
    return a.call == b.call && a.refused == b.refused && a.leave_polls == b.leave_polls &&
           a.complete_polls == b.complete_polls && a.early == b.early && a.pieces == b.pieces &&
           a.fate == b.fate;
  }
};

struct Statistics {
  uint64_t calls_refused = 0;
  uint64_t writes_placed = 0;
  uint64_t writes_in_pieces = 0;    // among those
  uint64_t sends_overtook = 0;      // messages delivered before an earlier write of their sender's
  uint64_t early_completions = 0;   // told to the initiator before the bytes were placed
  uint64_t immediates_dropped = 0;  // for want of FI_RMA_EVENT
  uint64_t messages_unheard = 0;    // and atomics: either end had forgotten the other
  uint64_t writes_refused = 0;      // wrong key, bounds or access
  uint64_t regions_busy = 0;        // fi_close of a region that failed
};

struct ControlOps {
  // Copies the last `count` decisions at most, oldest first, and tells how many.
  size_t (*decisions)(fid_ep* endpoint, Decision* out, size_t count);
  void (*statistics)(fid_ep* endpoint, Statistics* out);
};

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_CONTROL_H_
