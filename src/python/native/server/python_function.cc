#include "src/python/native/server/python_function.h"

#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "src/python/native/buffer.h"
#include "src/python/native/server/async_call.h"
#include "src/python/native/server/call_memory.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// The Python side of a thread that C++ started, from its first call until its end. Making one for
// each call would take longer than many a call.
class ThreadState {
 public:
  ~ThreadState() {
    // An interpreter that ends is no longer initialized. It frees what is left, and no other thread
    // may enter it.
    if (state_ == nullptr || Py_IsInitialized() == 0) return;
    PyEval_RestoreThread(state_);
    PyGILState_Release(PyGILState_UNLOCKED);
  }

  // Takes the GIL. A plain method rather than a destructor takes and gives it: a thread that
  // Python wants to end is unwound from here.
  void Enter() {
    if (state_ != nullptr) {
      PyEval_RestoreThread(state_);
      return;
    }
    PyGILState_Ensure();
    state_ = PyThreadState_Get();
  }
  void Leave() { PyEval_SaveThread(); }

 private:
  PyThreadState* state_ = nullptr;
};

thread_local ThreadState thread_state;
thread_local const invoker_call* running = nullptr;  // what this thread is called with

void SetError(invoker_call* call, py::handle exception) {
  const py::object text =
      py::module_::import("invoker._native.failures").attr("describe")(exception);
  const auto message = py::cast<std::string>(text);
  function_internal::SetError(call, message);
}

// The exception that is set, as the call's failure. Leaves none set.
int64_t FailWithException(invoker_call* call) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  try {
    SetError(call, value);
  } catch (py::error_already_set& error) {
    function_internal::SetError(call, "the function raised an exception that cannot be described");
    error.restore();
    PyErr_Clear();
  } catch (const std::exception&) {
    function_internal::SetError(call, "the function raised an exception that cannot be described");
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return INVOKER_FAILED;
}

int64_t Answer(invoker_call* call, PyObject* result) {
  if (result == Py_None) return 0;
  if (PyObject_CheckBuffer(result) == 0) {
    throw py::type_error("the function returned " + std::string(Py_TYPE(result)->tp_name) +
                         ": it must return something bytes-like, or None" +
                         (PyUnicode_Check(result) ? "; encode the text" : ""));
  }
  const InputBuffer buffer(result);
  const absl::Span<const std::byte> bytes = buffer.bytes();
  if (bytes.size() > call->output_capacity) {
    call->output_needed = bytes.size();
    return INVOKER_OUTPUT_TOO_SMALL;
  }
  if (!bytes.empty()) std::memcpy(call->output, bytes.data(), bytes.size());
  return static_cast<int64_t>(bytes.size());
}

int64_t FramedAnswer(invoker_call* call, PyObject* result) {
  Py_ssize_t size = PyNumber_AsSsize_t(result, PyExc_OverflowError);
  if (size == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (size < 0) {
    // An exception is an answer, too.
    size = -1 - size;
    call->services->count_failure(call);
  }
  if (static_cast<uint64_t>(size) <= call->output_capacity) return size;
  call->output_needed = static_cast<uint64_t>(size);
  return INVOKER_OUTPUT_TOO_SMALL;
}

int64_t TypedAnswer(invoker_call* call, const SignatureCodec& signature, py::handle result) {
  Pieces pieces;
  signature.EncodeResult(result, &pieces);
  if (pieces.size() > call->output_capacity) {
    call->output_needed = pieces.size();
    return INVOKER_OUTPUT_TOO_SMALL;
  }
  pieces.WriteTo(call->output);
  return static_cast<int64_t>(pieces.size());
}

// Whether a framed function is asked for a part of an answer that is kept: by the frame's first
// bytes (invoker/frames.py).
bool IsFetch(absl::Span<const uint8_t> request) {
  constexpr uint8_t kFetch[] = {'I', 'N', 'V', 'P', /*version=*/1, /*kind=*/2};
  return request.size() >= sizeof(kFetch) &&
         std::memcmp(request.data(), kFetch, sizeof(kFetch)) == 0;
}

// Runs `body`, which throws Python's exceptions, and makes what it throws the call's failure.
template <typename Body>
int64_t FailingIfThrown(invoker_call* call, Body&& body) {
  try {
    return body();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return FailWithException(call);
}

}  // namespace

bool PythonFunction::IsRunning() { return running != nullptr; }

bool PythonFunction::IsCancelled() { return running != nullptr && INVOKER_CALL_CANCELLED(running); }

py::object PythonFunction::Facts() { return FactsOf(running); }

py::object PythonFunction::FactsOf(const invoker_call* call) {
  if (call == nullptr || call->services == nullptr) return py::none();
  invoker_call_facts facts = {};
  facts.struct_size = sizeof(facts);
  call->services->describe(call, &facts);
  py::object left = py::none();
  if (facts.remaining_ns != INVOKER_NO_DEADLINE) {
    left = py::float_(static_cast<double>(facts.remaining_ns) * 1e-9);
  }
  return py::make_tuple(facts.tenant, facts.call_id, left);
}

py::object PythonFunction::FindArray(const std::string& reference) {
  return python::FindArray(running, reference);
}

FunctionEntry PythonFunction::Entry(std::string name, std::string doc, std::string library,
                                    uint32_t concurrency) {
  FunctionEntry entry;
  entry.name = std::move(name);
  entry.function = &PythonFunction::Call;
  entry.context = this;
  entry.doc = std::move(doc);
  entry.library = std::move(library);
  entry.concurrency = concurrency;
  if (form_ == Form::kFramed) entry.asks_for_more = &IsFetch;
  if (form_ == Form::kTyped) entry.signature = signature_->text();
  return entry;
}

py::object PythonFunction::Run(invoker_call* call, const CallMemory& request,
                               const CallMemory& room) const {
  PyObject* result = nullptr;
  if (form_ == Form::kTyped) {
    // What an array keeps of it, when the call has ended, is noticed.
    const auto owner = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(request.view()));
    if (!owner) throw py::error_already_set();
    const py::tuple arguments = signature_->DecodeArguments(*call, owner);
    result = PyObject_CallObject(callable_.ptr(), arguments.ptr());
  } else {
    PyObject* arguments[] = {request.view(), room.view()};
    const size_t count = form_ == Form::kFramed ? 2 : 1;
    result = PyObject_Vectorcall(callable_.ptr(), arguments, count, nullptr);
  }
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

int64_t PythonFunction::AnswerWith(invoker_call* call, py::handle result) const {
  switch (form_) {
    case Form::kPlain:
      return Answer(call, result.ptr());
    case Form::kFramed:
      return FramedAnswer(call, result.ptr());
    case Form::kTyped:
      return TypedAnswer(call, *signature_, result);
  }
  return INVOKER_FAILED;
}

int64_t PythonFunction::End(invoker_call* call, CallMemory* request, CallMemory* room,
                            absl::FunctionRef<int64_t()> answer) const {
  return FailingIfThrown(call, [&] {
    const int64_t returned = FailingIfThrown(call, answer);
    const bool request_back = request->TakeBack();
    const bool room_back = room->TakeBack();
    if (request_back && room_back) return returned;
    throw py::value_error(
        "the function keeps memory of its request, such as an array over it, beyond the call: "
        "it must copy what it keeps");
  });
}

int64_t PythonFunction::CallWithGil(invoker_call* call) const {
  return FailingIfThrown(call, [&] {
    CallMemory request(const_cast<void*>(call->input), call->input_size, /*writable=*/false);
    CallMemory room(call->output, call->output_capacity, /*writable=*/true);
    return End(call, &request, &room, [&] { return AnswerWith(call, Run(call, request, room)); });
  });
}

// The coroutine begins on the event loop's thread.
int64_t PythonFunction::StartWithGil(invoker_call* call, invoker_call* deferred) const {
  return FailingIfThrown(call, [&]() -> int64_t {
    const py::object later = py::cast(std::make_unique<AsyncCall>(this, deferred));
    py::module_::import("invoker._native.event_loop")
        .attr("start")(later.cast<AsyncCall&>().Start(), later);
    return INVOKER_DEFERRED;
  });
}

int64_t PythonFunction::Call(invoker_call* call) {
  const auto* function = static_cast<const PythonFunction*>(call->context);
  invoker_call* deferred = nullptr;
  if (function->coroutine_) {
    deferred = call->services->defer(call);
    if (deferred == nullptr) return INVOKER_NO_ROOM;
  }
  thread_state.Enter();
  running = call;
  const int64_t answer =
      deferred == nullptr ? function->CallWithGil(call) : function->StartWithGil(call, deferred);
  running = nullptr;
  thread_state.Leave();
  return answer;
}

bool PreparePythonFunctions() { return PrepareCallMemoryType(); }

}  // namespace invoker::python
