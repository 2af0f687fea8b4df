#include "src/transport/spin_escape/spin_escape.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "src/base/start_thread.h"

// The unwinder's library (libgcc_s, libunwind) has it in no header.
struct dwarf_eh_bases {
  void* tbase;
  void* dbase;
  void* func;
};
extern "C" const void* _Unwind_Find_FDE(const void* code, dwarf_eh_bases* bases);

namespace invoker::transport {
namespace {

// How often is looked within a limit.
constexpr int kLooksPerLimit = 5;
constexpr absl::Duration kLeastLimit = absl::Milliseconds(1);
constexpr absl::Duration kLongestLimit = absl::Hours(24);

// Where a processor is when it spins, and how a thread that does is told to leave.
struct Means {
  uintptr_t spin_begin = 0;
  uintptr_t spin_bytes = 0;
  int signal = 0;  // 0: none
};

// 0 on a processor that is not known here.
uintptr_t ProgramCounter(const void* context) {
  [[maybe_unused]] const auto* const at = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  return static_cast<uintptr_t>(at->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<uintptr_t>(at->uc_mcontext.pc);
#else
  return 0;
#endif
}

// Whether a thread that is about to do what stands there may have got the lock: it looks whether it
// has, or is about to return. Where the processor is another one, a thread that has is not told
// from one that spins, but it is not long there.
bool MayHaveLock([[maybe_unused]] uintptr_t code) {
#if defined(__x86_64__)
  switch (*reinterpret_cast<const unsigned char*>(code)) {
    case 0x0f:  // jcc, long
    case 0x31:  // xor
    case 0x33:
    case 0x74:  // je
    case 0x75:  // jne
    case 0x85:  // test
    case 0xc3:  // ret
      return true;
    default:
      return false;
  }
#else
  return false;
#endif
}

bool HasUnwindTable(const void* code) {
  dwarf_eh_bases bases;
  return _Unwind_Find_FDE(code, &bases) != nullptr;
}

// The C library's own, whatever else has that name. False if it is not known how long it is.
bool FindSpinLock(Means* means) {
  void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  void* const code = dlsym(library, "pthread_spin_lock");
  Dl_info its;
  ElfW(Sym)* symbol = nullptr;
  const bool known = code != nullptr &&
                     dladdr1(code, &its, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) != 0 &&
                     symbol != nullptr && its.dli_saddr == code;
  dlclose(library);
  if (!known) return false;
  if (!HasUnwindTable(code)) return false;
  means->spin_begin = reinterpret_cast<uintptr_t>(code);
  means->spin_bytes = symbol->st_size;
  return true;
}

// From the last: what programs take for themselves they count from the first.
int FindFreeSignal() {
  for (int number = SIGRTMAX; number >= SIGRTMIN; --number) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) != 0) continue;
    if ((action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL) return number;
  }
  return 0;
}

Means g_means;  // written once, before any call is watched

}  // namespace

__thread SpinEscape::Caller SpinEscape::caller_;

void SpinEscape::OnSignal(int, siginfo_t*, void* context) {
  caller_.answered.store(caller_.answered.load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
  if (caller_.limit_ns.load(std::memory_order_relaxed) == 0) return;
  const uint64_t call = caller_.calls.load(std::memory_order_relaxed);
  // Not one that began since.
  if (caller_.leave.load(std::memory_order_relaxed) != call) return;
  const uintptr_t at = ProgramCounter(context);
  if (at - g_means.spin_begin >= g_means.spin_bytes || MayHaveLock(at)) return;
  // Once may be chance, in a call that is long for another reason and takes a lock at times.
  if (std::exchange(caller_.spun, call) == call) throw Left();
}

// Looks at every thread that makes such calls, again and again, on a thread of its own.
class SpinWatch {
 public:
  // For as long as calls may spin that long, and no longer.
  static SpinWatch* Begin(int64_t limit_ns);
  // Ends what Begin returned. Does nothing in a fork of the process that has it.
  static void End(SpinWatch* watch, int64_t limit_ns);

  static void Add(SpinEscape::Caller* caller);
  static void Remove(SpinEscape::Caller* caller);

  static const Means& Prepared();

 private:
  static void Prepare();
  static void BeginInFork();
  static void NameThread(SpinEscape::Caller* caller);
  void Main();
  static void Look(SpinEscape::Caller* caller);

  // Guards all that is here. Held over a fork.
  static std::mutex mutex_;
  static SpinWatch* watch_;  // nullptr: nobody needs one
  // Never destroyed: threads end after it would be.
  static std::vector<SpinEscape::Caller*>& callers_;

  std::vector<int64_t> limits_ns_;
  bool ends_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

std::mutex SpinWatch::mutex_;
SpinWatch* SpinWatch::watch_ = nullptr;
std::vector<SpinEscape::Caller*>& SpinWatch::callers_ = *new std::vector<SpinEscape::Caller*>;

const Means& SpinWatch::Prepared() {
  static std::once_flag once;
  std::call_once(once, Prepare);
  return g_means;
}

void SpinWatch::Prepare() {
  pthread_atfork([] { mutex_.lock(); }, [] { mutex_.unlock(); }, BeginInFork);
#ifdef ABSL_HAVE_THREAD_SANITIZER
  // It keeps a signal back until the thread is out of what it is in.
  return;
#endif
  if (!FindSpinLock(&g_means)) return;
  const int number = FindFreeSignal();
  if (number == 0) return;
  struct sigaction action = {};
  action.sa_sigaction = SpinEscape::OnSignal;
  // Nothing is blocked in the handler, which need not return to have it unblocked.
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  if (sigaction(number, &action, nullptr) == 0) g_means.signal = number;
}

// One of the parent's threads is there, under another number, and nobody looks.
void SpinWatch::BeginInFork() {
  watch_ = nullptr;
  callers_.clear();
  SpinEscape::Caller* const self = &SpinEscape::caller_;
  if (self->known.load(std::memory_order_relaxed)) {
    NameThread(self);
    // What was sent to the other one does not come.
    self->sent = self->answered.load(std::memory_order_relaxed);
    callers_.push_back(self);
  }
  mutex_.unlock();
}

SpinWatch* SpinWatch::Begin(int64_t limit_ns) {
  if (Prepared().signal == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (watch_ == nullptr) {
    auto watch = std::make_unique<SpinWatch>();
    // Without it nobody leaves, as where there is no way to.
    if (!StartThread(&watch->thread_, [raw = watch.get()] { raw->Main(); }).ok()) return nullptr;
    watch_ = watch.release();
  }
  watch_->limits_ns_.push_back(limit_ns);
  watch_->wake_.notify_one();
  return watch_;
}

void SpinWatch::End(SpinWatch* watch, int64_t limit_ns) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (watch == nullptr || watch != watch_) return;
    std::vector<int64_t>& limits = watch->limits_ns_;
    limits.erase(std::find(limits.begin(), limits.end(), limit_ns));
    if (!limits.empty()) return;
    watch->ends_ = true;
    watch->wake_.notify_one();
    watch_ = nullptr;
  }
  watch->thread_.join();
  delete watch;
}

void SpinWatch::Add(SpinEscape::Caller* caller) {
  const std::lock_guard<std::mutex> lock(mutex_);
  NameThread(caller);
  callers_.push_back(caller);
}

void SpinWatch::Remove(SpinEscape::Caller* caller) {
  const std::lock_guard<std::mutex> lock(mutex_);
  callers_.erase(std::remove(callers_.begin(), callers_.end(), caller), callers_.end());
}

// On the thread.
void SpinWatch::NameThread(SpinEscape::Caller* caller) {
  caller->thread = static_cast<pid_t>(syscall(SYS_gettid));
  if (pthread_getcpuclockid(pthread_self(), &caller->clock) != 0) caller->clock = CLOCK_MONOTONIC;
}

void SpinWatch::Look(SpinEscape::Caller* caller) {
  const int64_t limit_ns = caller->limit_ns.load(std::memory_order_relaxed);
  const uint64_t call = caller->calls.load(std::memory_order_relaxed);
  if (limit_ns == 0) return;
  timespec clock = {};
  clock_gettime(caller->clock, &clock);
  const int64_t now_ns = int64_t{clock.tv_sec} * 1'000'000'000 + clock.tv_nsec;
  if (std::exchange(caller->seen, call) != call) caller->since_ns = now_ns;
  if (now_ns - caller->since_ns < limit_ns) return;
  caller->leave.store(call, std::memory_order_relaxed);
  // One that blocks them does not collect them.
  if (caller->answered.load(std::memory_order_relaxed) != caller->sent) return;
  ++caller->sent;
  syscall(SYS_tgkill, getpid(), caller->thread, g_means.signal);
}

void SpinWatch::Main() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ends_) {
    const int64_t pause_ns =
        *std::min_element(limits_ns_.begin(), limits_ns_.end()) / kLooksPerLimit;
    wake_.wait_for(lock, std::chrono::nanoseconds(pause_ns));
    for (SpinEscape::Caller* caller : callers_) Look(caller);
  }
}

SpinEscape::SpinEscape(absl::Duration limit)
    : limit_ns_(absl::ToInt64Nanoseconds(std::clamp(limit, kLeastLimit, kLongestLimit))),
      watch_(SpinWatch::Begin(limit_ns_)) {}

SpinEscape::~SpinEscape() { SpinWatch::End(watch_, limit_ns_); }

bool SpinEscape::Supported() { return SpinWatch::Prepared().signal != 0; }

bool SpinEscape::CanUnwind(const void* code) { return HasUnwindTable(code); }

void SpinEscape::GetKnown() {
  struct Membership {
    Membership() { SpinWatch::Add(&caller_); }
    ~Membership() {
      // The main thread goes on, with what is static.
      if (caller_.thread != getpid()) SpinWatch::Remove(&caller_);
    }
  };
  thread_local const Membership membership;
  caller_.known.store(true, std::memory_order_relaxed);
}

}  // namespace invoker::transport
