#include "tests/budget/lockstep/turns.h"

#include <linux/futex.h>
#include <rdma/fi_errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "tests/budget/lockstep/lockstep.h"

namespace invoker::lockstep {
namespace {

// What one reading of the clock takes.
constexpr int64_t kClockReadNs = 20;

constexpr long kPauseNs = 50'000;

std::atomic<bool> turns_on{false};
// Changes with everything that somebody may wait for: a thread that posts waits next, and only then
// may others read it.
std::atomic<uint32_t> generation{0};
Queue* first_queue = nullptr;
std::atomic<int64_t> clock_ns{0};
// Not by a call into the dynamic linker.
__attribute__((tls_model("initial-exec"))) thread_local bool t_takes_turns = false;

void Wait(uint32_t seen) {
  RawSyscall(SYS_futex, reinterpret_cast<long>(&generation), FUTEX_WAIT_PRIVATE, seen);
}

// For a poll that found nothing, while no turns are taken: valgrind runs one thread at a time, and
// those of gRPC are to have their time, too.
void Pause() {
  const timespec time = {0, kPauseNs};
  RawSyscall(SYS_nanosleep, reinterpret_cast<long>(&time));
}

void Announce() {
  generation.fetch_add(1);
  RawSyscall(SYS_futex, reinterpret_cast<long>(&generation), FUTEX_WAKE_PRIVATE, INT32_MAX);
}

}  // namespace

long RawSyscall(long number, long a, long b, long c, long d) {
  long result;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

// A wait for what the word never is returns at once, and lets others run: under valgrind one thread
// runs at a time. On the word that is known to be this library's, unlike sched_yield.
void StepLock::lock() {
  while (taken_.exchange(true, std::memory_order_acquire)) Wait(generation.load() - 1);
}

void StepLock::unlock() { taken_.store(false, std::memory_order_release); }

StepLock& Lock() {
  static StepLock lock;
  return lock;
}

Queue::Queue() {
  std::lock_guard<StepLock> guard(Lock());
  next_ = first_queue;
  first_queue = this;
}

Queue::~Queue() {
  if (wait_fd >= 0) close(wait_fd);
  std::lock_guard<StepLock> guard(Lock());
  Queue** at = &first_queue;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
}

void Queue::PushOwn(const fi_cq_data_entry& entry) { own_.Push({entry, nullptr}); }

void Queue::PushRemote(const fi_cq_data_entry& entry, const Queue* sender) {
  remote_.Push({entry, sender});
}

void Queue::Take(Ring* ring, fi_cq_data_entry* entry) {
  *entry = ring->front().data;
  ring->Pop();
}

// Whether there is something that may be read now.
bool Queue::Deliverable() const {
  if (!own_.empty()) return true;
  if (remote_.empty()) return false;
  const Queue* sender = remote_.front().sender;
  return sender == this || !sender->taking_turns_ || sender->waiting_;
}

bool Queue::NothingUnderWay() const {
  bool others = false;
  for (const Queue* queue = first_queue; queue != nullptr; queue = queue->next_) {
    if (queue == this || !queue->taking_turns_) continue;
    others = true;
    if (!queue->waiting_ || queue->Deliverable()) return false;
  }
  return others;
}

ssize_t Queue::ReadNow(fi_cq_data_entry* entries, size_t count) {
  size_t taken = 0;
  while (taken < count && !own_.empty()) Take(&own_, &entries[taken++]);
  while (taken < count && !remote_.empty()) Take(&remote_, &entries[taken++]);
  return taken == 0 ? -FI_EAGAIN : static_cast<ssize_t>(taken);
}

ssize_t Queue::Read(fi_cq_data_entry* entries, size_t count) {
  bool waited = false;
  while (true) {
    bool announce;
    uint32_t seen;
    {
      std::unique_lock<StepLock> guard(Lock());
      if (!turns_on.load()) {
        waiting_ = false;
        const ssize_t read = ReadNow(entries, count);
        guard.unlock();
        if (read < 0) Pause();
        return read;
      }
      t_takes_turns = true;
      taking_turns_ = true;
      waiting_ = true;
      if (Deliverable()) {
        Take(own_.empty() ? &remote_ : &own_, entries);
        waiting_ = false;
        return 1;
      }
      if (NothingUnderWay()) {
        waiting_ = false;
        return -FI_EAGAIN;
      }
      announce = !waited;
      seen = generation.load() + (announce ? 1 : 0);
    }
    if (announce) Announce();
    waited = true;
    Wait(seen);
  }
}

void BeginTurns() {
  std::lock_guard<StepLock> guard(Lock());
  for (Queue* queue = first_queue; queue != nullptr; queue = queue->next_) {
    queue->taking_turns_ = false;
    queue->waiting_ = false;
  }
  timespec now;
  RawSyscall(SYS_clock_gettime, CLOCK_MONOTONIC, reinterpret_cast<long>(&now));
  clock_ns.store(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
  t_takes_turns = true;
  turns_on.store(true);
}

void Begin() { BeginTurns(); }

void End() {
  std::lock_guard<StepLock> guard(Lock());
  turns_on.store(false);
  Announce();
}

void AdvanceClock(int64_t nanoseconds) { clock_ns.fetch_add(nanoseconds); }

const void* WaitAddress() { return &generation; }

}  // namespace invoker::lockstep

// In place of the C library's, for the whole program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  using namespace invoker::lockstep;
  const bool monotonic =
      clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_MONOTONIC_COARSE;
  if (!monotonic || !t_takes_turns || !turns_on.load(std::memory_order_relaxed)) {
    const long result = RawSyscall(SYS_clock_gettime, clock, reinterpret_cast<long>(time));
    if (result == 0) return 0;
    errno = static_cast<int>(-result);
    return -1;
  }
  const int64_t now_ns = clock_ns.fetch_add(kClockReadNs);
  time->tv_sec = now_ns / 1'000'000'000;
  time->tv_nsec = now_ns % 1'000'000'000;
  return 0;
}
