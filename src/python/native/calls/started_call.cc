#include "src/python/native/calls/started_call.h"

#include <pybind11/pybind11.h>

#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "src/python/native/calls/native_caller.h"
#include "src/python/native/errors.h"
#include "src/python/native/guarded.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

struct Body {
  PyObject* native_object;
  NativeCaller* native;  // in native_object
  PendingCall* pending;  // a share
  CallHandle handle;
  bool cancelled = false;     // by Cancel
  PyObject* value = nullptr;  // once it has been asked for: a memoryview or an exception
};

struct StartedCall {
  PyObject_HEAD;
  Body body;
};

PyTypeObject* started_call_type = nullptr;

Body& BodyOf(PyObject* self) { return reinterpret_cast<StartedCall*>(self)->body; }

PyObject* Ended(PyObject* self, PyObject*) {
  return PyBool_FromLong(BodyOf(self).pending->ended());
}

PyObject* Wait(PyObject* self, PyObject* timeout) {
  const Body& body = BodyOf(self);
  if (body.pending->ended()) Py_RETURN_TRUE;
  return Guarded([&]() -> PyObject* {
    std::optional<double> seconds;
    if (timeout != Py_None) {
      seconds = PyFloat_AsDouble(timeout);
      if (*seconds == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    }
    return PyBool_FromLong(body.native->Await(*body.pending, seconds));
  });
}

PyObject* Value(PyObject* self, PyObject*) {
  Body& body = BodyOf(self);
  if (body.value == nullptr) {
    if (!body.pending->ended()) {
      PyErr_SetString(PyExc_RuntimeError, "the call has not ended");
      return nullptr;
    }
    body.value = Guarded([&]() -> PyObject* {
      absl::StatusOr<Memory>& response = body.pending->response();
      if (!response.ok()) return MakeException(response.status()).release().ptr();
      return (*std::move(response)).IntoView();
    });
    if (body.value == nullptr) return nullptr;
  }
  return Py_NewRef(body.value);
}

PyObject* Cancel(PyObject* self, PyObject*) {
  Body& body = BodyOf(self);
  if (body.pending->ended()) return PyBool_FromLong(body.cancelled);
  return Guarded([&]() -> PyObject* {
    body.pending->RequestCancel();
    if (body.native->Cancel(body.handle)) body.cancelled = true;
    return PyBool_FromLong(body.cancelled);
  });
}

PyObject* Cancelled(PyObject* self, PyObject*) {
  const Body& body = BodyOf(self);
  return PyBool_FromLong(body.cancelled || (body.pending->ended() && body.pending->cancelled()));
}

PyObject* Watch(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2) return PyErr_Format(PyExc_TypeError, "watch() takes a queue and a token");
  return Guarded([&]() -> PyObject* {
    const Body& body = BodyOf(self);
    const auto& queue = py::handle(arguments[0]).cast<const std::shared_ptr<EndedQueue>&>();
    const uint64_t token = PyLong_AsUnsignedLongLong(arguments[1]);
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    return PyBool_FromLong(body.pending->Watch(queue, token));
  });
}

PyObject* LeaveToHelper(PyObject* self, PyObject*) {
  return Guarded([&]() -> PyObject* {
    BodyOf(self).native->LeaveToHelper();
    Py_RETURN_NONE;
  });
}

// An exception refers to the frames that it has passed, and these to the call.
int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(BodyOf(self).native_object);
  Py_VISIT(BodyOf(self).value);
  return 0;
}

int Clear(PyObject* self) {
  Py_CLEAR(BodyOf(self).value);
  return 0;
}

void Dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  Body& body = BodyOf(self);
  // Before the rest, since it may run code.
  Py_CLEAR(body.value);
  if (body.pending != nullptr) body.pending->LetGo();
  PyObject* native_object = body.native_object;
  body.~Body();
  type->tp_free(self);
  Py_XDECREF(native_object);
  Py_DECREF(type);
}

PyObject* GetSession(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(BodyOf(self).pending->session());
}

PyMethodDef methods[] = {
    {"ended", Ended, METH_NOARGS, nullptr},
    {"wait", Wait, METH_O, nullptr},
    {"value", Value, METH_NOARGS, nullptr},
    {"cancel", Cancel, METH_NOARGS, nullptr},
    {"cancelled", Cancelled, METH_NOARGS, nullptr},
    {"watch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Watch)), METH_FASTCALL,
     nullptr},
    {"leave_to_helper", LeaveToHelper, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"session", GetSession, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(Traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(Clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, nullptr},
};

PyType_Spec spec = {
    "invoker._native._invoker.StartedCall",
    sizeof(StartedCall),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    slots,
};

}  // namespace

PyObject* MakeStartedCallType() {
  PyObject* type = PyType_FromSpec(&spec);
  started_call_type = reinterpret_cast<PyTypeObject*>(type);
  return Py_XNewRef(type);
}

PyObject* MakeStartedCall(PyObject* native_object, NativeCaller* native, PendingCall* pending,
                          CallHandle handle) {
  PyObject* self = started_call_type->tp_alloc(started_call_type, 0);
  if (self == nullptr) {
    pending->LetGo();
    throw py::error_already_set();
  }
  new (&BodyOf(self)) Body{Py_NewRef(native_object), native, pending, std::move(handle)};
  return self;
}

void AwaitQueue(const EndedQueue& queue, PyObject* started_call, std::optional<double> limit) {
  if (Py_TYPE(started_call) == started_call_type) {
    BodyOf(started_call).native->Await(queue, limit);
  } else {
    NativeCaller::AwaitOthers(queue);
  }
}

}  // namespace invoker::python
