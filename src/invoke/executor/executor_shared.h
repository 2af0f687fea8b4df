// State that the endpoints of one executor share.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_SHARED_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_SHARED_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "src/base/thread_check.h"
#include "src/invoke/executor/bulk/bulk_budget.h"
#include "src/invoke/executor/deferred/deferred_call_set.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/function_meters.h"
#include "src/invoke/executor/session/function_times.h"
#include "src/invoke/executor/session/session_key.h"
#include "src/invoke/executor/store/data_store.h"
#include "src/invoke/executor/usage_meter.h"
#include "src/invoke/function/function_registry.h"
#include "src/transport/reactor/quarantine.h"

namespace invoker {

// The executor's thread writes all of it but `draining`. Any thread may read the atomics.
struct ExecutorShared {
  const FunctionRegistry* functions = nullptr;
  ExecutorWatch* watch = nullptr;  // also counts dropped messages
  FunctionMeters* function_meters = nullptr;
  // A session has ended by itself, and is fenced. Must not block on the executor.
  std::function<void(SessionKey, const absl::Status&)> on_session_failed;
  // A session has ended although no probe of its client ever came. Must not block; may be empty.
  std::function<void()> on_unheard;
  FunctionTimes times{0};
  uint32_t index = 0;       // the executor's
  uint32_t next_epoch = 1;  // no two sessions have the same, on whatever endpoint
  bool thorough = false;    // each turn reads every queue: something else than a message is awaited
  bool rearrange = false;   // the endpoints that are polled may be others now
  std::shared_ptr<DeferredCallSet> deferred;  // nullptr: no call can be deferred
  std::shared_ptr<BulkBudget> bulk_budget;    // all executors of the worker share it
  std::shared_ptr<DataStore> store;           // nullptr: no data can be stored
  std::shared_ptr<transport::QuarantineTotal> quarantine_total;  // the same; nullptr: no limit
  TickScale scale;
  UsageCounters usage;  // all sessions, those that have ended included
  std::atomic<uint32_t> live_sessions{0};
  std::atomic<uint64_t> endpoints_given_up{0};  // that take no more sessions
  std::atomic<bool> busy{false};                // functions run
  std::atomic<bool> draining{false};
  ThreadCheck thread;  // the executor's thread, for assertions
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_SHARED_H_
