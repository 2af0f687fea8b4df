// Makes the system's Abseil visible to ThreadSanitizer.
//
// Debian's libabsl_synchronization is not instrumented, and absl::Mutex is atomics and futexes, not
// a pthread mutex: without this file ThreadSanitizer sees no order between two critical sections
// and reports a race for every correct use. Each function below stands in front of Abseil's own
// (the dynamic linker takes a program's definition before a library's), calls it, and states the
// order that it gives.
//
// While Abseil runs, accesses are ignored: it evaluates one thread's absl::Condition on another
// that holds the mutex, after that other has announced its release. Linked under --config=tsan
// only.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "absl/base/config.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace {

#define INVOKER_STRING_OF(x) #x
#define INVOKER_STRING(x) INVOKER_STRING_OF(x)
constexpr char kInlineNamespace[] = INVOKER_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);

// Abseil's own definition of a member function, given its mangled name's start and the part of it
// that follows the inline namespace.
template <typename Function>
Function Real(const char* start, const char* rest) {
  char name[192];
  std::snprintf(name, sizeof(name), "%s%zu%s%s", start, sizeof(kInlineNamespace) - 1,
                kInlineNamespace, rest);
  void* symbol = dlsym(RTLD_NEXT, name);
  if (symbol == nullptr) {
    std::fprintf(stderr,
                 "absl_tsan: %s is not in the system's Abseil: the shim was written for another "
                 "release of it\n",
                 name);
    std::abort();
  }
  return reinterpret_cast<Function>(symbol);
}

class IgnoreAccesses {
 public:
  IgnoreAccesses() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~IgnoreAccesses() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  IgnoreAccesses(const IgnoreAccesses&) = delete;
  IgnoreAccesses& operator=(const IgnoreAccesses&) = delete;
};

// The flag that HasBeenNotified() reads inline, with an acquire that ThreadSanitizer does see. It
// follows the mutex, the first member.
void* NotifiedFlag(const absl::Notification* notification) {
  return reinterpret_cast<char*>(const_cast<absl::Notification*>(notification)) +
         sizeof(absl::Mutex);
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto real = Real<void (*)(Mutex*)>("_ZN4absl", "5Mutex4LockEv");
  {
    IgnoreAccesses ignore;
    real(this);
  }
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static const auto real = Real<void (*)(Mutex*)>("_ZN4absl", "5Mutex6UnlockEv");
  __tsan_release(this);
  IgnoreAccesses ignore;
  real(this);
}

bool Mutex::TryLock() {
  static const auto real = Real<bool (*)(Mutex*)>("_ZN4absl", "5Mutex7TryLockEv");
  bool locked;
  {
    IgnoreAccesses ignore;
    locked = real(this);
  }
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderLock() {
  static const auto real = Real<void (*)(Mutex*)>("_ZN4absl", "5Mutex10ReaderLockEv");
  {
    IgnoreAccesses ignore;
    real(this);
  }
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  static const auto real = Real<void (*)(Mutex*)>("_ZN4absl", "5Mutex12ReaderUnlockEv");
  __tsan_release(this);
  IgnoreAccesses ignore;
  real(this);
}

bool Mutex::ReaderTryLock() {
  static const auto real = Real<bool (*)(Mutex*)>("_ZN4absl", "5Mutex13ReaderTryLockEv");
  bool locked;
  {
    IgnoreAccesses ignore;
    locked = real(this);
  }
  if (locked) __tsan_acquire(this);
  return locked;
}

// The functions that wait for a condition: each may release the mutex and always holds it at its
// return.
#define INVOKER_WAIT(result, name, rest, parameters, types, arguments)         \
  result Mutex::name parameters {                                              \
    static const auto real = Real<result(*) types>("_ZN4absl", "5Mutex" rest); \
    struct Order {                                                             \
      explicit Order(void* mutex) : mutex(mutex) { __tsan_release(mutex); }    \
      ~Order() { __tsan_acquire(mutex); }                                      \
      void* mutex;                                                             \
    } order(this);                                                             \
    IgnoreAccesses ignore;                                                     \
    return real arguments;                                                     \
  }
#define INVOKER_CONDITION "ERKNS0_9ConditionE"

INVOKER_WAIT(void, Await, "5Await" INVOKER_CONDITION, (const Condition& c),
             (Mutex*, const Condition&), (this, c))
INVOKER_WAIT(bool, AwaitWithTimeout, "16AwaitWithTimeout" INVOKER_CONDITION "NS0_8DurationE",
             (const Condition& c, Duration t), (Mutex*, const Condition&, Duration), (this, c, t))
INVOKER_WAIT(bool, AwaitWithDeadline, "17AwaitWithDeadline" INVOKER_CONDITION "NS0_4TimeE",
             (const Condition& c, Time t), (Mutex*, const Condition&, Time), (this, c, t))
INVOKER_WAIT(void, LockWhen, "8LockWhen" INVOKER_CONDITION, (const Condition& c),
             (Mutex*, const Condition&), (this, c))
INVOKER_WAIT(bool, LockWhenWithTimeout, "19LockWhenWithTimeout" INVOKER_CONDITION "NS0_8DurationE",
             (const Condition& c, Duration t), (Mutex*, const Condition&, Duration), (this, c, t))
INVOKER_WAIT(bool, LockWhenWithDeadline, "20LockWhenWithDeadline" INVOKER_CONDITION "NS0_4TimeE",
             (const Condition& c, Time t), (Mutex*, const Condition&, Time), (this, c, t))
INVOKER_WAIT(void, ReaderLockWhen, "14ReaderLockWhen" INVOKER_CONDITION, (const Condition& c),
             (Mutex*, const Condition&), (this, c))

#undef INVOKER_CONDITION
#undef INVOKER_WAIT

void CondVar::Wait(Mutex* mutex) {
  static const auto real =
      Real<void (*)(CondVar*, Mutex*)>("_ZN4absl", "7CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  {
    IgnoreAccesses ignore;
    real(this, mutex);
  }
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto real = Real<bool (*)(CondVar*, Mutex*, Duration)>(
      "_ZN4absl", "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  bool timed_out;
  {
    IgnoreAccesses ignore;
    timed_out = real(this, mutex, timeout);
  }
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto real = Real<bool (*)(CondVar*, Mutex*, Time)>(
      "_ZN4absl", "7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  bool timed_out;
  {
    IgnoreAccesses ignore;
    timed_out = real(this, mutex, deadline);
  }
  __tsan_acquire(mutex);
  return timed_out;
}

void Notification::Notify() {
  static const auto real = Real<void (*)(Notification*)>("_ZN4absl", "12Notification6NotifyEv");
  __tsan_release(NotifiedFlag(this));
  real(this);
}

void Notification::WaitForNotification() const {
  static const auto real =
      Real<void (*)(const Notification*)>("_ZNK4absl", "12Notification19WaitForNotificationEv");
  real(this);
  __tsan_acquire(NotifiedFlag(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto real = Real<bool (*)(const Notification*, Duration)>(
      "_ZNK4absl", "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = real(this, timeout);
  if (notified) __tsan_acquire(NotifiedFlag(this));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  static const auto real = Real<bool (*)(const Notification*, Time)>(
      "_ZNK4absl", "12Notification31WaitForNotificationWithDeadlineENS0_4TimeE");
  const bool notified = real(this, deadline);
  if (notified) __tsan_acquire(NotifiedFlag(this));
  return notified;
}

bool BlockingCounter::DecrementCount() {
  static const auto real =
      Real<bool (*)(BlockingCounter*)>("_ZN4absl", "15BlockingCounter14DecrementCountEv");
  __tsan_release(this);
  return real(this);
}

void BlockingCounter::Wait() {
  static const auto real = Real<void (*)(BlockingCounter*)>("_ZN4absl", "15BlockingCounter4WaitEv");
  real(this);
  __tsan_acquire(this);
}

ABSL_NAMESPACE_END
}  // namespace absl
