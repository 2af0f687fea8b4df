#include "src/invoke/executor/deferred/concurrent_function.h"

#include <cstring>
#include <exception>
#include <utility>

#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/start_thread.h"
#include "src/invoke/function/function_registry.h"

namespace invoker {

ConcurrentFunction::ConcurrentFunction(FunctionEntry entry, const std::atomic<bool>* draining)
    : entry_(std::move(entry)), draining_(draining) {}

ConcurrentFunction::~ConcurrentFunction() { Stop(); }

FunctionEntry ConcurrentFunction::Entry() {
  FunctionEntry entry = entry_;
  entry.function = &ConcurrentFunction::Call;
  entry.context = this;
  return entry;
}

int64_t ConcurrentFunction::Call(invoker_call* call) {
  return static_cast<ConcurrentFunction*>(call->context)->Take(call);
}

int64_t ConcurrentFunction::Take(invoker_call* call) {
  invoker_call* const deferred = call->services->defer(call);
  if (deferred == nullptr) return INVOKER_NO_ROOM;
  deferred->context = entry_.context;
  absl::MutexLock lock(&mutex_);
  waiting_.push_back(static_cast<DeferredCall*>(deferred->worker));
  if (idle_ >= waiting_.size() || threads_.size() >= entry_.concurrency) return INVOKER_DEFERRED;
  std::thread thread;
  if (transport::StartThread(&thread, [this] { ThreadMain(); }).ok()) {
    threads_.push_back(std::move(thread));
  } else if (threads_.empty()) {
    // No thread will ever come for it.
    DeferredCall* const last = waiting_.back();
    waiting_.pop_back();
    last->Refuse(StatusCode::kNoMemory, "the worker can start no thread for the function");
  }
  return INVOKER_DEFERRED;
}

void ConcurrentFunction::ThreadMain() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    ++idle_;
    const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !waiting_.empty() || stopping_;
    };
    mutex_.Await(absl::Condition(&wanted));
    --idle_;
    if (waiting_.empty()) return;
    DeferredCall* const call = waiting_.front();
    waiting_.pop_front();
    mutex_.Unlock();
    Run(call);
    mutex_.Lock();
  }
}

void ConcurrentFunction::Run(DeferredCall* call) {
  if (draining_->load(std::memory_order_relaxed)) {
    return call->Refuse(StatusCode::kDraining, "the worker runs no more functions");
  }
  if (call->cancelled()) return call->Refuse(StatusCode::kCancelled, "");
  if (call->Overdue(transport::MonotonicNs())) {
    return call->Refuse(StatusCode::kDeadlineExpired,
                        "the deadline passed before the function could begin; it did not run");
  }
  call->Begin(/*on_own_thread=*/true);
  int64_t returned = INVOKER_FAILED;
  try {
    returned = entry_.function(call->call());
  } catch (const std::exception& exception) {
    JudgeException(&exception, call->error());
  } catch (...) {
    JudgeException(nullptr, call->error());
  }
  EndForkedChild();
  // A function that defers its calls itself has the call now, or has answered it already.
  if (returned != INVOKER_DEFERRED) call->Complete(returned);
}

void ConcurrentFunction::Stop() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (DeferredCall* call : waiting_) {
      call->Refuse(StatusCode::kDraining, "the worker runs no more functions");
    }
    waiting_.clear();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace invoker
