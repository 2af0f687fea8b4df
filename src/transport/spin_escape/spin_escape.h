// Gets threads out of calls that spin for a lock which nobody will let go of.
//
// A provider between the processes of one host may keep a queue in memory that they share, under a
// spin lock. Where a process is killed or stopped while it holds that, the thread that calls the
// provider next spins inside libfabric for ever: no deadline ends that, nothing times out there,
// and no lock of ours can keep a thread from it. So the thread is taken out of the call: another
// one sees that a call does not end, and sends it a signal, whose handler, if it finds the thread
// in pthread_spin_lock, throws an exception there, which unwinds the stack to where the call began,
// as the cancellation of a thread does.
//
// A call that does not spin costs a few stores. One thread for the process looks at the calls that
// are under way, while there is a SpinEscape. The signal is a real-time signal that the program has
// no handler for when the first SpinEscape is made; its handler stays. A thread that blocks it
// stays where it is.

#ifndef INVOKER_SRC_TRANSPORT_SPIN_ESCAPE_SPIN_ESCAPE_H_
#define INVOKER_SRC_TRANSPORT_SPIN_ESCAPE_SPIN_ESCAPE_H_

#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/time/time.h"

namespace invoker::transport {

class SpinWatch;

class SpinEscape {
 public:
  // What Run returns of a call that was left; as a libfabric call would ("Owner died").
  static constexpr ssize_t kLeft = -EOWNERDEAD;

  // A call may spin for `limit`, and two fifths of that more until it has been seen spinning twice.
  // Only time counts in which it has a processor: where there are few for many threads, who has the
  // lock waits for one, too.
  explicit SpinEscape(absl::Duration limit);
  ~SpinEscape();
  SpinEscape(const SpinEscape&) = delete;
  SpinEscape& operator=(const SpinEscape&) = delete;

  // Whether calls can be left here: it takes a C library whose pthread_spin_lock can be told from
  // other code, and a processor that this knows. Else they spin for as long as they do. Any thread.
  static bool Supported();

  // Makes `call`, of no arguments, and returns what it returns; or, of one that was left, calls
  // `left` and returns kLeft. What a call has done before it came to the lock stays done, and what
  // it holds stays held: it should be a call into C. It must be one that might throw, for all that
  // the compiler knows, of code of which CanUnwind is true. Any thread, but no Run in a Run.
  template <typename Call, typename WhenLeft>
  ssize_t Run(const Call& call, const WhenLeft& left) const {
    try {
      const Stay stay(limit_ns_);
      return call();
    } catch (const Left&) {
      left();
      return kLeft;
    }
  }

  // Whether a thread can be got out of code that has this in it: a library that was built without
  // the tables that say how to unwind its stack ends the program instead. Any thread.
  static bool CanUnwind(const void* code);

 private:
  friend class SpinWatch;

  // A thread that has been in a call. Another one reads what it writes.
  struct Caller {
    std::atomic<int64_t> limit_ns;  // limit of the call that it is in; 0: none
    std::atomic<uint64_t> calls;
    std::atomic<bool> known;         // to SpinWatch
    std::atomic<uint64_t> answered;  // signals
    uint64_t spun;                   // the call in which a signal has found it spinning
    // SpinWatch's.
    pid_t thread;
    clockid_t clock;
    std::atomic<uint64_t> leave;  // the call that it is to leave
    uint64_t sent;                // signals
    uint64_t seen;                // the call that it was in
    int64_t since_ns;             // by the thread's own clock
  };

  // What is thrown out of a call, by the handler of a signal.
  struct Left {};

  // A thread's stay in a call.
  class Stay {
   public:
    explicit Stay(int64_t limit_ns) {
      if (ABSL_PREDICT_FALSE(!caller_.known.load(std::memory_order_relaxed))) GetKnown();
      caller_.calls.store(caller_.calls.load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
      caller_.limit_ns.store(limit_ns, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    ~Stay() {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      caller_.limit_ns.store(0, std::memory_order_relaxed);
    }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
  };

  static void GetKnown();
  static void OnSignal(int, siginfo_t*, void* context);

  // Not thread_local, which would be looked up by a function each time; and a signal's handler
  // reads it, which must not have to allocate it.
  static __thread Caller caller_ __attribute__((tls_model("initial-exec")));

  const int64_t limit_ns_;
  SpinWatch* const watch_;  // nullptr: not supported
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SPIN_ESCAPE_SPIN_ESCAPE_H_
