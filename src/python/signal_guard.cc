#include "src/python/signal_guard.h"

#include <signal.h>

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/synchronization/mutex.h"

namespace invoker::python {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
int guards = 0;
struct sigaction noted[2];

}  // namespace

SignalGuard::SignalGuard() {
  absl::MutexLock lock(&mutex);
  if (guards++ > 0) return;
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], nullptr, &noted[i]);
}

SignalGuard::~SignalGuard() {
  absl::MutexLock lock(&mutex);
  --guards;
  for (int i = 0; i < 2; ++i) {
    const bool has_siginfo = (noted[i].sa_flags & SA_SIGINFO) != 0;
    if (!has_siginfo && noted[i].sa_handler == SIG_DFL) continue;
    sigaction(kSignals[i], &noted[i], nullptr);
  }
}

}  // namespace invoker::python
