#include "src/python/fork_mark.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace invoker::python {
namespace {

// How often this process has been forked from another one since the module was imported. Process
// ids come again; this does not.
std::atomic<uint32_t> forks{0};

}  // namespace

ForkMark::ForkMark() : forks_(forks.load(std::memory_order_relaxed)), process_(getpid()) {}

bool ForkMark::forked() const { return forks.load(std::memory_order_relaxed) != forks_; }

void PrepareForkMarks() {
  pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
}

}  // namespace invoker::python
