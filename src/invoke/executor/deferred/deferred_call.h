// A call whose answer comes later, from any thread: of a function that has deferred it
// (function_abi.h).
//
// It has memory of its own, so it needs neither its session nor the executor's thread: both may be
// gone when the answer comes. Its input is a copy of the request's.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_DEFERRED_DEFERRED_CALL_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_DEFERRED_DEFERRED_CALL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "invoker/function_abi.h"
#include "src/invoke/executor/store/data_store.h"
#include "src/invoke/wire/wire.h"

namespace invoker {

class DeferredCallSet;
class DeferredCall;

// Where an answer goes. Executor thread only.
class DeferredOwner {
 public:
  virtual ~DeferredOwner() = default;
  virtual void Finish(DeferredCall* call) = 0;
};

class DeferredCall : public std::enable_shared_from_this<DeferredCall> {
 public:
  struct Facts {
    std::string tenant;
    std::string call_id;
    uint64_t sequence = 0;                   // its request's
    int64_t deadline_ns = 0;                 // MonotonicNs; 0: none
    std::shared_ptr<const DataStore> store;  // with the data that it refers to; nullptr: none
  };

  // Copies the input and makes room for the output; nullptr if there is no memory.
  static std::shared_ptr<DeferredCall> Make(std::shared_ptr<DeferredCallSet> calls,
                                            const invoker_call& call, Facts facts);

  // For the function: lives until Complete.
  invoker_call* call() { return &call_; }

  // Any thread. The function has returned this, or would have: see invoker_function. Once; the call
  // and its memory are not to be touched afterwards.
  void Complete(int64_t returned);
  // The same of a call whose function has not run.
  void Refuse(StatusCode status, std::string reason);

  // Any thread: invoker_services::find_data. What is found stays until the call is answered.
  bool FindData(const uint8_t* reference, invoker_stored_data* found)
      ABSL_LOCKS_EXCLUDED(found_mutex_);

  // Any thread: its caller waits no more.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  bool Overdue(int64_t now_ns) const {
    return facts_.deadline_ns != 0 && now_ns > facts_.deadline_ns;
  }

  // Any thread. It counts as running from now on. `on_own_thread`: it runs nothing before, and all
  // the time until Complete counts as function time.
  void Begin(bool on_own_thread);

  // The rest is the executor's thread's.

  // Names the request and the owner, once the function has returned. Without an owner nobody gets
  // the answer.
  void Place(const RequestHeader& header, const std::byte* flags,
             const std::shared_ptr<DeferredOwner>& owner) {
    header_ = header;
    flags_ = flags;
    owner_ = owner;
  }
  std::shared_ptr<DeferredOwner> owner() const { return owner_.lock(); }
  const RequestHeader& header() const { return header_; }
  // In the session's window, which the client writes to.
  const std::byte* flags() const { return flags_; }

  // Since Complete or Refuse:
  bool has_run() const { return answer_.refusal == StatusCode::kOk; }
  StatusCode refusal() const { return answer_.refusal; }
  const std::string& reason() const { return answer_.reason; }
  int64_t returned() const { return answer_.returned; }
  // Whether its answer tells of a failure (invoker_services::count_failure).
  bool tells_of_failure() const { return answer_.tells_of_failure; }
  absl::Span<const std::byte> output() const { return {output_.get(), output_capacity_}; }
  absl::Span<char> error() { return absl::MakeSpan(error_); }
  uint64_t input_size() const { return input_size_; }
  // How long it took: since its function deferred it, or since it began on a thread of its own.
  uint64_t ticks() const { return answer_.ticks; }
  // The part of it that is function time.
  uint64_t run_ticks() const { return on_own_thread_ ? answer_.ticks : 0; }
  uint64_t sequence() const { return facts_.sequence; }

 private:
  friend class DeferredCallSet;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;
  struct Answer {
    int64_t returned = 0;
    uint64_t ticks = 0;
    bool tells_of_failure = false;
    StatusCode refusal = StatusCode::kOk;  // why the function has not run
    std::string reason;
  };

  DeferredCall(std::shared_ptr<DeferredCallSet> calls, Facts facts);
  void End();
  void Describe(invoker_call_facts* facts) const;

  static const invoker_services kServices;
  static DeferredCall* Of(const invoker_call* call) {
    return static_cast<DeferredCall*>(call->worker);
  }

  const std::shared_ptr<DeferredCallSet> calls_;
  const Facts facts_;
  uint64_t run_ = 0;  // ExecutorWatch's value while it runs
  invoker_call call_ = {};
  Memory input_;
  Memory output_;
  absl::Mutex found_mutex_;
  std::vector<std::shared_ptr<const StoredData>> found_ ABSL_GUARDED_BY(found_mutex_);
  uint64_t input_size_ = 0;  // the function's own copies may be wrong
  uint64_t output_capacity_ = 0;
  std::array<char, INVOKER_MIN_ERROR_CAPACITY> error_ = {};
  std::atomic<bool> cancelled_{false};
  RequestHeader header_;
  const std::byte* flags_ = nullptr;
  std::weak_ptr<DeferredOwner> owner_;
  uint64_t began_ticks_ = 0;
  bool on_own_thread_ = false;
  Answer answer_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_DEFERRED_DEFERRED_CALL_H_
