// CallDriver: memory of the program that peers have access to.

#include <algorithm>
#include <utility>

#include "src/invoke/client_options.h"
#include "src/invoke/session/call_driver.h"

namespace invoker {

absl::StatusOr<transport::MemoryRegion> CallDriver::RegisterMemory(transport::HostBuffer buffer,
                                                                   transport::RegionUse use) {
  // Without the lock, for which other calls' deadlines and the lease's heartbeats may wait.
  transport::MemoryRegion::Prepare(reactor_->profile(), buffer, use);
  lock_.Lock();
  absl::StatusOr<transport::MemoryRegion> region = reactor_->Register(std::move(buffer), use);
  lock_.Unlock();
  return region;
}

void CallDriver::CloseMemory(transport::MemoryRegion region) {
  lock_.Lock();
  if (session_->failed_with_buffers()) SettleTransfersLocked();
  std::move(region).Close();
  lock_.Unlock();
}

// What the worker has begun to write to the program's memory ends now, while it is there, or, if
// the worker neither goes on nor goes away, never.
void CallDriver::SettleTransfersLocked() {
  constexpr absl::Duration kLimit = absl::Milliseconds(150);
  // One thread at a time sleeps on the reactor, and a driver may. Calls have ended, so it leaves.
  reactor_->Submit([] {});
  while (driven_) WaitLocked(nullptr, kForever);
  if (settled_ || reactor_->abandoned()) return;
  driven_ = true;
  session_->PostQuiesceWrite();
  settled_ = reactor_->AwaitQuiesceWrite(kLimit);
  quiet_ = settled_;
  driven_ = false;
  LeaveLocked();
  if (settled_) return;
  // What is never driven again stays in others' way, where they wait for this side to take part.
  if (!reactor_->profile().close_needs_quiet) PollLocked();
  reactor_->Abandon();
}

// Where a target takes part by polling, transfers to it stand in its queue, which this empties.
void CallDriver::PollLocked() {
  constexpr int kPolls = 64;
  for (int i = 0; i < kPolls && !reactor_->abandoned(); ++i) reactor_->Poll();
}

void CallDriver::RunLocked(absl::FunctionRef<void()> task) {
  lock_.Lock();
  task();
  lock_.Unlock();
}

ResponseDropCounters CallDriver::dropped_responses() {
  ResponseDropCounters dropped;
  RunLocked([&] { dropped = session_->dropped(); });
  return dropped;
}

void CallDriver::LetTransfersEnd() {
  lock_.Lock();
  PollLocked();
  lock_.Unlock();
}

bool CallDriver::DriveUntil(absl::FunctionRef<bool()> done, int64_t deadline_ns) {
  lock_.Lock();
  while (!done() && session_->failure().ok() && transport::MonotonicNs() < deadline_ns) {
    if (driven_) {
      WaitLocked(nullptr, deadline_ns);
      continue;
    }
    driven_ = true;
    const int events = reactor_->Poll();
    session_->Flush();
    if (lock_.Contended()) lock_.Yield();
    if (events == 0 && !done()) SleepLocked(deadline_ns);
    driven_ = false;
    if (!session_->finished().empty() && !DeliversHere()) RunFinishedLocked();
  }
  const bool result = done();
  if (!driven_) LeaveLocked();
  lock_.Unlock();
  return result;
}

}  // namespace invoker
