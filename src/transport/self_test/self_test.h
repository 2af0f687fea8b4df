// Does a fabric really do what it claims? Two endpoints of this process talk to each other.
//
// fi_getinfo's answer is a claim; what crossed here was seen. The test writes into each endpoint's
// memory from the other, with every notification that the profile allows, compares the bytes at the
// moment the token arrives, and notes what else there is to see. It is quick (tens of milliseconds
// where all is well), never takes much longer than its limit, and leaves nothing behind: no thread,
// no shared memory, no registration. The exception is a fabric that fails half-way and whose
// endpoints cannot be closed then (Reactor::Close): its endpoints stay until the process ends.
//
// It says nothing about how two hosts would fare, and its times are no benchmark.

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "invoker/notification.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/provider/provider_profile.h"
#include "src/transport/self_test/method_trial.h"

namespace invoker::transport {

// How remote counters were added to.
enum class AtomicsSeen : uint8_t {
  kNotTried,
  kNative,   // fi_atomic, and the sum was right
  kMessage,  // by a message to the owner, and the sum was right
  kFailed,   // the sum was wrong, or did not come
};

struct SelfTestResult {
  // OK: bytes crossed in both directions with at least one notification. Otherwise what failed
  // first, in words that name the provider. UNAVAILABLE and NOT_FOUND are discovery's and
  // opening's.
  absl::Status status = absl::UnknownError("the self-test has not run");

  // The provider crashed, or hung until its process was killed (RunSelfTestsApart).
  bool died = false;

  // What a session on this fabric should use, if status is OK.
  Notification notification = Notification::kSendAfterWrite;

  // Write-with-immediate crossed in both directions, each token after its bytes.
  bool immediate_crossed = false;
  // Why it did not; empty if it did.
  std::string immediate_failure;
  // The same for send-after-write in the profile's order.
  bool send_after_write_crossed = false;
  std::string send_after_write_failure;

  // Send-after-write carried up to so many bytes inside the send; 0: the profile has none of that.
  size_t eager_bytes = 0;

  // The target's completion entry of a write-with-immediate, if one was seen.
  bool entry_seen = false;
  size_t immediate_bytes = 0;       // that arrived as they were sent: 4, 8, or 0 if garbled
  bool entry_length_right = false;  // whether its len was the write's
  bool entry_names_source = false;  // whether the completion says who wrote
  // For 16 writes, each with a send right behind it: how many sends came before their write's
  // bytes. 0 is no promise; more than 0 shows that there is none.
  uint32_t sends_tried = 0;
  uint32_t sends_overtook = 0;

  AtomicsSeen atomics = AtomicsSeen::kNotTried;

  WaitMethod wait = WaitMethod::kBackoff;  // that the reactor really uses
  bool wait_woke = false;                  // an arrival ended a sleep before the sleep's own end
  double wake_us = 0;                      // from the post to the token, asleep in between

  // Median of up to 100 round trips of 64 bytes with `notification`, both ends on one thread: what
  // this process saw just now, not a benchmark. 0 if none was measured.
  double round_trip_us = 0;
  uint32_t round_trips = 0;

  // Up to which payload injected pieces were faster than one write, between two threads; 0: none,
  // or the fabric has no such choice. And every length that was tried.
  uint64_t pieces_up_to = 0;
  std::vector<MethodTimes> methods;

  absl::Duration elapsed;
};

// Blocks the calling thread, any thread, beside what fi_getinfo and opening an endpoint take: for
// `limit` and three quarters of it where nothing arrives at all, for a little over a quarter of it
// where immediates are lost. Choose it for a busy machine, not for a quiet one: five seconds.
SelfTestResult RunSelfTest(const FabricRequest& request, absl::Duration limit);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_H_
