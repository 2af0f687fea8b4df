#include "src/transport/reactor/reactor_retirement.h"

#include <utility>

#include "absl/synchronization/mutex.h"

namespace invoker::transport {
namespace {

// How many turns to wait for the end of each quiesce write: some milliseconds.
constexpr int kTurns = 1024;

// The handler of a retired reactor.
class NullHandler final : public ReactorHandler {
 public:
  void OnToken(uint64_t) override {}
  void OnTick(int64_t) override {}
};

struct RetiredReactors {
  absl::Mutex mutex;
  std::vector<std::unique_ptr<Reactor>> retired ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Reactor>> quarantined ABSL_GUARDED_BY(mutex);
};

// Never destroyed: a reactor that is still there when the process ends cannot be closed.
RetiredReactors& GetRetiredReactors() {
  static auto* const reactors = new RetiredReactors;
  return *reactors;
}

}  // namespace

std::vector<std::unique_ptr<Reactor>> ReactorRetirement::TakeReleasable() {
  std::vector<std::unique_ptr<Reactor>> releasable;
  std::vector<std::unique_ptr<Reactor>> rest;
  RetiredReactors& reactors = GetRetiredReactors();
  absl::MutexLock lock(&reactors.mutex);
  for (std::unique_ptr<Reactor>& reactor : reactors.retired) {
    for (int i = 0; i < kTurns && reactor->quiesce_write_.under_way() && !reactor->is_quiet();
         ++i) {
      reactor->Poll();
    }
    (reactor->is_quiet() ? releasable : rest).push_back(std::move(reactor));
  }
  reactors.retired = std::move(rest);
  return releasable;
}

void ReactorRetirement::Retire(std::unique_ptr<Reactor> reactor, bool quiet) {
  const bool half_received = reactor != nullptr && !quiet && reactor->profile().close_needs_quiet;
  if (half_received || (reactor != nullptr && reactor->endpoint_->lost())) {
    static auto* const handler = new NullHandler;
    reactor->set_handler(handler);
    // The half-received bytes still go there, however late.
    reactor->retired_.Keep();
    RetiredReactors& reactors = GetRetiredReactors();
    absl::MutexLock lock(&reactors.mutex);
    (reactor->endpoint_->quarantined() ? reactors.quarantined : reactors.retired)
        .push_back(std::move(reactor));
  }
  // Those that can be released are destroyed here, without the lock.
  TakeReleasable();
}

}  // namespace invoker::transport
