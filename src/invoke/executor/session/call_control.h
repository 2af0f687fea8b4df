// Tells a function that runs about its call: whether the caller still waits for the answer, who the
// caller is, and how long it waits.
//
// Each session has one, on its executor's thread, and sets it before every call. A function reaches
// it through invoker_call, and only on the thread that called it: asking lets the fabric's provider
// work, which only that thread may do. A call whose function asks nothing pays for two stores.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_CALL_CONTROL_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_CALL_CONTROL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "invoker/function_abi.h"
#include "src/invoke/executor/deferred/deferred_call_set.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/session/session_usage.h"
#include "src/invoke/executor/store/data_store.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class CallControl {
 public:
  // `epoch` is the session's, and `tenant` its client.
  // `deferred` outlives the session; nullptr: no call can be deferred. `store` has the data that
  // calls refer to; nullptr: none.
  CallControl(transport::Reactor* reactor, uint32_t epoch, std::string tenant,
              DeferredCallSet* deferred, std::shared_ptr<const DataStore> store)
      : reactor_(reactor),
        epoch_(epoch),
        tenant_(std::move(tenant)),
        deferred_calls_(deferred),
        store_(std::move(store)) {}

  // A call begins. `flags` is the flags byte of its request, in memory that the client writes to;
  // `deadline_ns` is MonotonicNs, 0: none.
  void Begin(const std::byte* flags, int64_t deadline_ns) {
    flags_ = flags;
    deadline_ns_ = deadline_ns;
  }

  // Whether the client has cancelled the call, or its deadline has passed. Cheap enough to be asked
  // in every round of a loop: most times it reads the clock and one byte.
  bool Cancelled();
  // Fills in all but the size. The texts hold until the call has ended.
  void Describe(invoker_call_facts* facts);

  // invoker_services::find_data. What is found stays while the function runs: only this thread
  // frees data.
  bool FindData(const uint8_t* reference, invoker_stored_data* found) const {
    return invoker::FindData(store_.get(), reference, found) != nullptr;
  }

  // invoker_services::count_failure.
  void CountFailure() {
    if (usage_ != nullptr) usage_->CountFailure(watch_->Now().function());
  }
  // Both outlive the session.
  void CountFailuresIn(SessionUsage* usage, const ExecutorWatch* watch) {
    usage_ = usage;
    watch_ = watch;
  }

  // The function that runs answers later: its call, copied. nullptr: there is no room for it.
  invoker_call* Defer(const invoker_call& call);
  // The call of that sequence, once; nullptr: it has not been deferred.
  std::shared_ptr<DeferredCall> TakeDeferred(uint64_t sequence) {
    if (deferred_ == nullptr || deferred_->sequence() != sequence) return nullptr;
    return std::move(deferred_);
  }
  // A deferred call has been answered, or was never taken.
  void FreeRoom(const DeferredCall& call);
  // How many bytes all deferred calls of the session may have.
  void set_most_deferred_bytes(uint64_t bytes) { most_deferred_bytes_ = bytes; }

 private:
  // The client may have changed it since, and misleads nobody but itself.
  uint64_t Sequence() const;

  transport::Reactor* const reactor_;
  const uint32_t epoch_;
  const std::string tenant_;
  DeferredCallSet* const deferred_calls_;
  const std::shared_ptr<const DataStore> store_;
  SessionUsage* usage_ = nullptr;         // nullptr: failures are not counted
  const ExecutorWatch* watch_ = nullptr;  // with usage_
  std::shared_ptr<DeferredCall> deferred_;
  uint64_t most_deferred_bytes_ = UINT64_MAX;
  uint64_t deferred_bytes_ = 0;
  std::array<char, 32> call_id_ = {};  // the last one that was asked for
  const std::byte* flags_ = nullptr;
  int64_t deadline_ns_ = 0;
  int64_t next_work_ns_ = 0;
};

// For invoker_call::services, where invoker_call::worker is a CallControl.
extern const invoker_services kCallServices;

// Whether the client has marked the request at this flags byte as cancelled.
bool IsMarkedCancelled(const std::byte* flags);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_CALL_CONTROL_H_
