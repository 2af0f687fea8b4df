#include "src/python/native/server/fork_mark.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace invoker::python {
namespace {

// How often this process has been forked from another one since the module was imported. Process
// ids come again; this does not.
std::atomic<uint32_t> forks{0};

// The value of `forks` when the libraries were first used, here or in the process that this one was
// forked from; -1: they have not been.
std::atomic<int64_t> first_use{-1};

}  // namespace

ForkMark::ForkMark() : forks_(forks.load(std::memory_order_relaxed)), process_(getpid()) {}

bool ForkMark::forked() const { return forks.load(std::memory_order_relaxed) != forks_; }

absl::Status BeginUse() {
  const int64_t now = forks.load(std::memory_order_relaxed);
  int64_t first = -1;
  if (first_use.compare_exchange_strong(first, now) || first == now) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process was forked from one that had used invoker, and the libraries below it (gRPC, "
      "libfabric) do not work in such a process: fork before the first use, or start processes by "
      "multiprocessing's \"spawn\" method");
}

void PrepareForkMarks() {
  pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
}

}  // namespace invoker::python
