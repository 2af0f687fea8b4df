// Keeps calls under way on one session or on a group, checks what comes back, and notes when each
// call ended: what a failure does to them is what the report tells.
//
// Start on one thread; results arrive on the client's. Await and the accessors on any thread. The
// client and the marks outlive it, and every call has ended when it goes.

#ifndef INVOKER_TESTS_FAILURE_FLOOD_H_
#define INVOKER_TESTS_FAILURE_FLOOD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/call_fate.h"
#include "invoker/client.h"
#include "tests/failure/execution_marks.h"

namespace invoker::failure {

// Starts one asynchronous call.
using StartCall = std::function<void(Bytes input, const CallOptions& options, CallDone done)>;

struct FloodResult {
  uint64_t answered = 0;         // calls that came back right
  uint64_t failed = 0;           // that ended with an error: those that the failure met
  int64_t last_ended_ns = 0;     // when the last failed call ended, MonotonicNs
  uint64_t wrong_bytes = 0;      // in answers
  uint64_t unexecuted = 0;       // answered, and not executed
  uint64_t not_sent = 0;         // among the failed
  uint64_t maybe_executed = 0;   // among the failed
  uint64_t other_fate = 0;       // among the failed
  std::vector<uint64_t> unsent;  // their numbers: none of them may ever be executed
  absl::Status first_error;
};

class Flood {
 public:
  // Calls of kNumberBytes to `largest` bytes. `goes_on`: a call that fails is followed by another,
  // too; else the first failure stops the flood.
  Flood(StartCall start, ExecutionMarks* marks, size_t outstanding, size_t largest, uint64_t seed,
        bool goes_on = false);
  // Waits for every call that is under way.
  ~Flood();
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  // Each call that is answered starts the next, until Stop. Once.
  void Start();
  void Stop();

  // Waits until so many more have been answered. False if it takes longer, or, unless it goes on,
  // calls fail.
  bool AwaitAnswered(uint64_t answered, absl::Duration limit);
  // Waits until one has failed. False if that takes longer.
  bool AwaitFailure(absl::Duration limit);
  // Waits until no call is under way. False if that takes longer.
  bool AwaitEnd(absl::Duration limit);

  uint64_t under_way();
  // Once all have ended.
  FloodResult Result();

 private:
  struct Slot {
    uint64_t number = 0;
    std::string input;
  };

  void Next(size_t slot);
  void Ended(size_t slot, absl::StatusOr<Response> response);
  void Fail(uint64_t number, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StartCall start_;
  ExecutionMarks* const marks_;
  const size_t largest_;
  const bool goes_on_;
  absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slot> slots_;  // each its call's, and free to change between two
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // slots that have or will have a call
  FloodResult result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker::failure

#endif  // INVOKER_TESTS_FAILURE_FLOOD_H_
