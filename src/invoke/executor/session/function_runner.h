// Runs the functions of one session, inside the executor's thread. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_FUNCTION_RUNNER_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_FUNCTION_RUNNER_H_

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/base/fork_guard.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/session/call_control.h"
#include "src/invoke/function/function_registry.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class FunctionRunner {
 public:
  // All pointers outlive the runner. `filter` says which functions the client may call; nullptr:
  // all of them. `epoch` is the session's, and `tenant` its client. Without `deferred` functions
  // cannot defer calls, without `store` they find no data.
  FunctionRunner(const FunctionRegistry* functions,
                 std::shared_ptr<const bootstrap::FunctionFilter> filter, ExecutorWatch* watch,
                 uint32_t epoch, transport::Reactor* reactor, std::string tenant = "",
                 DeferredCallSet* deferred = nullptr,
                 std::shared_ptr<const DataStore> store = nullptr)
      : functions_(functions),
        filter_(std::move(filter)),
        watch_(watch),
        watched_as_(ExecutorWatch::SessionOf(epoch)),
        control_(reactor, epoch, std::move(tenant), deferred, std::move(store)) {}

  // nullptr if there is no function with this id, or none for this client.
  const FunctionEntry* Find(uint16_t id) const {
    const FunctionEntry* function = functions_->Find(id);
    if (ABSL_PREDICT_TRUE(filter_ == nullptr)) return function;
    return filter_->Allows(id) ? function : nullptr;
  }
  const FunctionRegistry& functions() const { return *functions_; }

  // FunctionEntry::asks_for_more, of a request with this payload.
  ABSL_ATTRIBUTE_NOINLINE bool AsksForMore(uint16_t id, const std::byte* payload,
                                           uint32_t bytes) const {
    const FunctionEntry* function = Find(id);
    return function != nullptr && function->asks_for_more != nullptr &&
           function->asks_for_more({reinterpret_cast<const uint8_t*>(payload), bytes});
  }

  // Runs a function. Returns the bytes of output, or less than 0 after a failure: then failure()
  // and error() say which, and ClearError is due. `flags` is the request's flags byte where the
  // client may still write; `deadline_ns` is MonotonicNs, 0: none. `executed` is how many functions
  // the session has run before.
  ABSL_ATTRIBUTE_ALWAYS_INLINE int64_t Run(const FunctionEntry& function, uint16_t id,
                                           absl::Span<const std::byte> input,
                                           absl::Span<std::byte> output, const std::byte* flags,
                                           int64_t deadline_ns, uint64_t executed) {
    assert(error_text_.front() == 0);
    control_.Begin(flags, deadline_ns);
    watch_->Begin(watched_as_, id, executed);
    const int64_t output_size =
        RunFunctionCleared(function, {reinterpret_cast<const uint8_t*>(input.data()), input.size()},
                           {reinterpret_cast<uint8_t*>(output.data()), output.size()},
                           absl::MakeSpan(error_text_), &failure_, &kCallServices, &control_);
    EndForkedChild();
    watch_->End();
    return output_size;
  }

  CallControl& control() { return control_; }
  const CallOutcome& failure() const { return failure_; }
  absl::string_view error() const { return {error_text_.data(), failure_.error_size}; }
  // The function that has just run has not deferred its call, although it says so.
  void FailUndeferred() { failure_ = JudgeUndeferred(absl::MakeSpan(error_text_)); }
  void ClearError() { error_text_.fill(0); }

 private:
  const FunctionRegistry* const functions_;
  const std::shared_ptr<const bootstrap::FunctionFilter> filter_;
  ExecutorWatch* const watch_;
  const uint64_t watched_as_;  // ExecutorWatch::SessionOf
  CallControl control_;
  CallOutcome failure_;                                           // the last function's that failed
  std::array<char, INVOKER_MIN_ERROR_CAPACITY> error_text_ = {};  // zeros between calls
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_FUNCTION_RUNNER_H_
