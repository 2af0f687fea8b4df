#include "src/invoke/group/deferred_calls.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/time/time.h"
#include "src/base/start_thread.h"

namespace invoker {
namespace {

// How often to try: while some can be started, and after a while without.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(16);

}  // namespace

bool DeferredCalls::Add(Try call) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stop_) {
      if (!thread_.joinable() && !transport::StartThread(&thread_, [this] { Run(); }).ok()) {
        return false;
      }
      waiting_.push_back(std::move(call));
      changed_.SignalAll();
      return true;
    }
  }
  while (!call()) {
  }
  return true;
}

void DeferredCalls::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void DeferredCalls::Run() {
  absl::Duration pause = kFirstPause;
  std::vector<Try> calls;
  absl::MutexLock lock(&mutex_);
  while (!stop_ || !waiting_.empty()) {
    if (waiting_.empty()) {
      changed_.Wait(&mutex_);
      pause = kFirstPause;
      continue;
    }
    calls.swap(waiting_);
    mutex_.Unlock();
    const size_t before = calls.size();
    calls.erase(std::remove_if(calls.begin(), calls.end(), [](Try& call) { return call(); }),
                calls.end());
    const bool some = calls.size() < before;
    mutex_.Lock();
    std::move(waiting_.begin(), waiting_.end(), std::back_inserter(calls));
    waiting_.swap(calls);
    calls.clear();
    pause = some ? kFirstPause : std::min(2 * pause, kLongestPause);
    if (!stop_ && !waiting_.empty()) changed_.WaitWithTimeout(&mutex_, pause);
  }
}

}  // namespace invoker
