#include "src/python/native/server/python_function.h"

#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "src/python/native/buffer.h"
#include "src/python/native/frames/frame.h"
#include "src/python/native/server/async_call.h"
#include "src/python/native/server/call_memory.h"
#include "src/python/native/server/framed_answer.h"

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

// The exception that is set, with its traceback. Leaves none set.
py::object TakeException() {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return py::reinterpret_steal<py::object>(value);
}

// The exception that is set, as the call's failure. Leaves none set.
int64_t FailWithException(invoker_call* call) {
  try {
    SetError(call, TakeException());
  } catch (py::error_already_set& error) {
    function_internal::SetError(call, "the function raised an exception that cannot be described");
    error.restore();
    PyErr_Clear();
  } catch (const std::exception&) {
    function_internal::SetError(call, "the function raised an exception that cannot be described");
  }
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

// Runs `body`, and `otherwise` once an exception that it has thrown is set in Python.
template <typename Body, typename Otherwise>
int64_t Caught(Body&& body, Otherwise&& otherwise) {
  try {
    return body();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return otherwise();
}

// Runs `body`, which throws Python's exceptions, and makes what it throws the call's failure.
template <typename Body>
int64_t FailingIfThrown(invoker_call* call, Body&& body) {
  return Caught(body, [call] { return FailWithException(call); });
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

bool PythonFunction::IsKeptAnswer(const invoker_call& call) const {
  return form_ == Form::kFramed &&
         IsFetch({static_cast<const uint8_t*>(call.input), call.input_size});
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

PythonFunction::Arguments PythonFunction::ArgumentsOf(invoker_call* call,
                                                      const CallMemory& request) const {
  switch (form_) {
    case Form::kPlain:
      return {py::make_tuple(py::handle(request.view())), {}};
    case Form::kFramed:
      return FramedArguments(request);
    case Form::kTyped:
      break;
  }
  // What an array keeps of it, when the call has ended, is noticed.
  const auto owner = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(request.view()));
  if (!owner) throw py::error_already_set();
  return {signature_->DecodeArguments(*call, owner), {}};
}

PythonFunction::Arguments PythonFunction::FramedArguments(const CallMemory& request) {
  DecodedFrame frame;
  try {
    frame = DecodeFrame(request.view());
  } catch (const py::error_already_set& error) {
    if (!error.matches(NoFrameType())) throw;
    // This caller does not read frames either.
    throw py::value_error(
        "a function of Python objects is called by remote(its name), and not by call(): " +
        py::cast<std::string>(py::str(error.value())));
  }
  if (frame.kind == FrameKind::kCall && PyTuple_Check(frame.value.ptr()) != 0 &&
      PyTuple_GET_SIZE(frame.value.ptr()) == 2) {
    Arguments arguments = {
        py::reinterpret_borrow<py::object>(PyTuple_GET_ITEM(frame.value.ptr(), 0)),
        py::reinterpret_borrow<py::object>(PyTuple_GET_ITEM(frame.value.ptr(), 1))};
    if (PyTuple_Check(arguments.positional.ptr()) != 0 &&
        PyDict_Check(arguments.keyword.ptr()) != 0) {
      return arguments;
    }
  }
  throw py::value_error("the frame holds no arguments of a call");
}

py::object PythonFunction::Run(const Arguments& arguments) const {
  PyObject* const result =
      PyObject_Call(callable_.ptr(), arguments.positional.ptr(), arguments.keyword.ptr());
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

int64_t PythonFunction::Answered(invoker_call* call, absl::FunctionRef<int64_t()> body) const {
  if (form_ != Form::kFramed) return body();
  return Caught(body, [call] { return AnswerRaised(call, TakeException()); });
}

int64_t PythonFunction::AnswerWith(invoker_call* call, py::handle result) const {
  switch (form_) {
    case Form::kPlain:
      return Answer(call, result.ptr());
    case Form::kFramed:
      return Answered(call, [&] { return AnswerReturned(call, callable_, result); });
    case Form::kTyped:
      return TypedAnswer(call, *signature_, result);
  }
  return INVOKER_FAILED;
}

int64_t PythonFunction::FailWith(invoker_call* call, py::handle exception) const {
  return Answered(call, [&]() -> int64_t {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    throw py::error_already_set();
  });
}

int64_t PythonFunction::Begin(invoker_call* call, const CallMemory& request,
                              py::object* result) const {
  return FailingIfThrown(call, [&] {
    const Arguments arguments = ArgumentsOf(call, request);
    return Answered(call, [&]() -> int64_t {
      *result = Run(arguments);
      return INVOKER_DEFERRED;
    });
  });
}

int64_t PythonFunction::End(invoker_call* call, CallMemory* request,
                            absl::FunctionRef<int64_t()> answer) const {
  return FailingIfThrown(call, [&] {
    const int64_t returned = FailingIfThrown(call, answer);
    if (request->TakeBack()) return returned;
    throw py::value_error(
        "the function keeps memory of its request, such as an array over it, beyond the call: "
        "it must copy what it keeps");
  });
}

int64_t PythonFunction::CallWithGil(invoker_call* call) const {
  return FailingIfThrown(call, [&] {
    CallMemory request(const_cast<void*>(call->input), call->input_size, /*writable=*/false);
    return End(call, &request, [&] {
      if (IsKeptAnswer(*call)) return AnswerFetch(call, request);
      py::object result;
      const int64_t answer = Begin(call, request, &result);
      return answer == INVOKER_DEFERRED ? AnswerWith(call, result) : answer;
    });
  });
}

// The coroutine begins on the event loop's thread.
int64_t PythonFunction::StartWithGil(invoker_call* call, invoker_call* deferred) const {
  return FailingIfThrown(call, [&]() -> int64_t {
    const py::object later = py::cast(std::make_unique<AsyncCall>(this, deferred));
    const py::object coroutine = later.cast<AsyncCall&>().Start();
    if (coroutine)
      py::module_::import("invoker._native.event_loop").attr("start")(coroutine, later);
    return INVOKER_DEFERRED;
  });
}

int64_t PythonFunction::Call(invoker_call* call) {
  const auto* function = static_cast<const PythonFunction*>(call->context);
  invoker_call* deferred = nullptr;
  if (function->coroutine_ && !function->IsKeptAnswer(*call)) {
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
