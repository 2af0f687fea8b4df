// Reactor: its end while a peer's write may be half received.

#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::transport {
namespace {

// In which Dispose looks for the end of each quiesce write: some milliseconds.
constexpr int kTurns = 1024;

// Of a reactor that nobody uses any more.
class Nobody final : public ReactorHandler {
 public:
  void OnToken(uint64_t) override {}
  void OnTick(int64_t) override {}
};

struct Aside {
  absl::Mutex mutex;
  std::vector<std::unique_ptr<Reactor>> reactors ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Reactor>> abandoned ABSL_GUARDED_BY(mutex);
};

// Never destroyed: what is still there when the process ends cannot be closed.
Aside& GetAside() {
  static auto* const aside = new Aside;
  return *aside;
}

}  // namespace

// Whatever else may have failed, such as want of memory, says nothing of the connection.
void Reactor::QuiesceWrite::OnOperationFailed(const Operation& operation,
                                              const absl::Status& status) {
  static_cast<void>(operation);
  failed = true;
  over = absl::IsUnavailable(status) || absl::IsCancelled(status);
}

void Reactor::PostQuiesceWrite(const RemoteWindow& window, std::byte last) {
  if (!profile().close_needs_quiet || quiesce_write_.posted) return;
  const MemoryRegion& source = staging_.front();
  std::byte* const copy = source.data() + source.size() - 1;
  *copy = last;
  quiesce_write_.posted =
      PostTransfer(TransferDirection::kWrite, window, window.length - 1, copy, source.descriptor(),
                   /*length=*/1, &quiesce_write_, /*tag=*/0);
}

// A provider that is to write one byte and has nothing else of ours under way refuses that only
// while it has no connection to the peer, and there has been one: what was half received has gone
// with it. It may refuse for ever, since it tries to connect each time.
bool Reactor::QuietAfterQuiesceWrite() const {
  const Operation* const refused = retry_head_;
  return quiesce_write_.over || (refused != nullptr && refused->owner == &quiesce_write_ &&
                                 operations_.outstanding() == 1);
}

bool Reactor::AwaitQuiesceWrite(absl::Duration limit) {
  const int64_t deadline_ns = MonotonicNs() + absl::ToInt64Nanoseconds(limit);
  while (quiesce_write_.under_way() && !QuietAfterQuiesceWrite()) {
    const int64_t left_ns = deadline_ns - MonotonicNs();
    if (left_ns <= 0) return false;
    if (Poll() == 0) Wait(absl::Nanoseconds(left_ns));
  }
  return QuietAfterQuiesceWrite();
}

// While it closes, an endpoint may still send from a region (docs/design/libfabric.md), so the
// region must not be closed before.
void Reactor::Abandon() {
  abandoned_ = true;
  if (regions_outlive_endpoint()) endpoint_->Close();
}

// Those that have been set aside and can be closed by now.
std::vector<std::unique_ptr<Reactor>> Reactor::TakeQuiet() {
  std::vector<std::unique_ptr<Reactor>> quiet;
  std::vector<std::unique_ptr<Reactor>> rest;
  Aside& aside = GetAside();
  absl::MutexLock lock(&aside.mutex);
  for (std::unique_ptr<Reactor>& reactor : aside.reactors) {
    for (int i = 0;
         i < kTurns && reactor->quiesce_write_.under_way() && !reactor->QuietAfterQuiesceWrite();
         ++i) {
      reactor->Poll();
    }
    (reactor->QuietAfterQuiesceWrite() ? quiet : rest).push_back(std::move(reactor));
  }
  aside.reactors = std::move(rest);
  return quiet;
}

void Reactor::Dispose(std::unique_ptr<Reactor> reactor, bool quiet) {
  const bool half_received = reactor != nullptr && !quiet && reactor->profile().close_needs_quiet;
  if (half_received || (reactor != nullptr && reactor->endpoint_->lost())) {
    static auto* const nobody = new Nobody;
    reactor->set_handler(nobody);
    // What is half received still goes there, however late.
    for (Retired& retired : reactor->retired_) retired.until_ns = INT64_MAX;
    Aside& aside = GetAside();
    absl::MutexLock lock(&aside.mutex);
    (reactor->abandoned() ? aside.abandoned : aside.reactors).push_back(std::move(reactor));
  }
  // They end here, without the lock.
  TakeQuiet();
}

}  // namespace invoker::transport
