#include "src/transport/base/signal_guard.h"

#include <dlfcn.h>

#include <atomic>

#include "absl/strings/match.h"
#include "src/transport/base/libfabric.h"

namespace invoker::transport {
namespace {

std::atomic<bool> keeps{false};

bool IsDefault(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

// Whether the handler's code is libfabric's: of the library itself, or of a provider that is a
// library of its own, which libfabric finds by the end of its name (fi_provider(7)).
bool IsOfLibfabric(const struct sigaction& action) {
  const void* const handler = (action.sa_flags & SA_SIGINFO) != 0
                                  ? reinterpret_cast<const void*>(action.sa_sigaction)
                                  : reinterpret_cast<const void*>(action.sa_handler);
  Dl_info its;
  Dl_info libfabric;
  if (dladdr(handler, &its) == 0) return false;
  if (absl::EndsWith(its.dli_fname, "-fi.so")) return true;
  return dladdr(reinterpret_cast<const void*>(&fi_version), &libfabric) != 0 &&
         its.dli_fbase == libfabric.dli_fbase;
}

}  // namespace

void KeepSignalHandlers() { keeps.store(true); }

SignalGuard::SignalGuard() : keeps_(keeps.load()) {
  if (!keeps_) return;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &noted_[i]);
}

SignalGuard::~SignalGuard() {
  if (!keeps_) return;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    // Libfabric's: another thread's guard, which noted the program's, puts that back.
    if (IsDefault(noted_[i]) || IsOfLibfabric(noted_[i])) continue;
    struct sigaction now;
    sigaction(kSignals[i], nullptr, &now);
    if (IsOfLibfabric(now)) sigaction(kSignals[i], &noted_[i], nullptr);
  }
}

}  // namespace invoker::transport
