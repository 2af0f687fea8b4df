#include "src/python/native/server/async_call.h"

#include <utility>

#include "src/python/native/server/python_function.h"

namespace invoker::python {

namespace py = pybind11;

AsyncCall::AsyncCall(const PythonFunction* function, invoker_call* call)
    : function_(function),
      call_(call),
      request_(const_cast<void*>(call->input), call->input_size, /*writable=*/false) {}

AsyncCall::~AsyncCall() {
  if (call_ == nullptr) return;
  function_internal::SetError(call_, "the function's coroutine was dropped before it ended");
  Complete(INVOKER_FAILED);
}

py::object AsyncCall::Start() {
  py::object coroutine;
  const int64_t answer = function_->Begin(call_, request_, &coroutine);
  if (answer != INVOKER_DEFERRED)
    Complete(function_->End(call_, &request_, [&] { return answer; }));
  return coroutine;
}

void AsyncCall::Finish(py::handle result) {
  if (call_ == nullptr) throw py::value_error("the call has been answered already");
  Complete(function_->End(call_, &request_, [&] { return function_->AnswerWith(call_, result); }));
}

void AsyncCall::Fail(py::handle exception) {
  if (call_ == nullptr) throw py::value_error("the call has been answered already");
  Complete(function_->End(call_, &request_, [&] { return function_->FailWith(call_, exception); }));
}

bool AsyncCall::IsCancelled() const { return call_ == nullptr || INVOKER_CALL_CANCELLED(call_); }

py::object AsyncCall::Facts() const { return PythonFunction::FactsOf(call_); }

py::object AsyncCall::FindArray(const std::string& reference) const {
  return python::FindArray(call_, reference);
}

// Does not block: the answer is left for the executor's thread.
void AsyncCall::Complete(int64_t returned) {
  invoker_call* const call = std::exchange(call_, nullptr);
  call->services->complete(call, returned);
}

}  // namespace invoker::python
