#include "src/python/native/calls/bound_function.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <optional>

#include "src/python/native/calls/native_caller.h"
#include "src/python/native/guarded.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

struct BoundFunction {
  PyObject_HEAD;
  PyObject* native_object;
  PyObject* handle_object;
  NativeCaller* native;            // in native_object
  const FunctionHandle* function;  // in handle_object
};

// The arguments of a call, in the order of `call`. Borrowed; nullptr: not given.
enum Argument { kData, kTimeout, kResponseCapacity, kOut, kDtype, kRetry, kArguments };
using Arguments = std::array<PyObject*, kArguments>;

constexpr const char* kNames[kArguments] = {"data", "timeout", "response_capacity",
                                            "out",  "dtype",   "retry"};

// The names as Python keeps them: a keyword in a program is most often the very same object.
Arguments interned_names;

PyObject* Run(PyObject* self, Arguments arguments) {
  const auto* bound = reinterpret_cast<BoundFunction*>(self);
  for (size_t i = kTimeout; i < kArguments; ++i) {
    if (arguments[i] == Py_None) arguments[i] = nullptr;
  }
  return Guarded([&]() -> PyObject* {
    const NativeCaller::CallArguments call = {arguments[kData], arguments[kTimeout],
                                              arguments[kResponseCapacity], arguments[kOut],
                                              arguments[kRetry]};
    if (arguments[kDtype] == nullptr)
      return bound->native->Call(*bound->function, call).release().ptr();
    // Rare beside what numpy does then.
    const py::module_ buffers = py::module_::import("invoker._native.buffers");
    const py::object dtype = buffers.attr("plain_dtype")(py::handle(arguments[kDtype]));
    const py::object result = bound->native->Call(*bound->function, call);
    return buffers.attr("as_array")(result, dtype).release().ptr();
  });
}

// The argument of that name, or kArguments.
size_t FindName(PyObject* name) {
  for (size_t i = 0; i < kArguments; ++i) {
    if (name == interned_names[i]) return i;
  }
  for (size_t i = 0; i < kArguments; ++i) {
    if (PyUnicode_CompareWithASCIIString(name, kNames[i]) == 0) return i;
  }
  return kArguments;
}

PyObject* CallWithKeywords(PyObject* self, PyObject* positional, PyObject* keywords) {
  Arguments arguments = {};
  const Py_ssize_t count = PyTuple_GET_SIZE(positional);
  if (count > 1) {
    return PyErr_Format(
        PyExc_TypeError,
        "a function of a worker takes 1 positional argument, the data, but %zd were given", count);
  }
  if (count == 1) arguments[kData] = PyTuple_GET_ITEM(positional, 0);
  Py_ssize_t position = 0;
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  while (keywords != nullptr && PyDict_Next(keywords, &position, &name, &value) != 0) {
    const size_t argument = FindName(name);
    if (argument == kArguments) {
      return PyErr_Format(PyExc_TypeError,
                          "a function of a worker got an unexpected keyword argument '%U'", name);
    }
    if (arguments[argument] != nullptr) {
      return PyErr_Format(PyExc_TypeError,
                          "a function of a worker got multiple values for argument '%U'", name);
    }
    arguments[argument] = value;
  }
  return Run(self, arguments);
}

PyObject* CallByPosition(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  if (count != kArguments) {
    return PyErr_Format(PyExc_TypeError, "call() takes %d arguments, but %zd were given",
                        int{kArguments}, count);
  }
  Arguments arguments;
  for (size_t i = 0; i < kArguments; ++i) arguments[i] = given[i];
  return Run(self, arguments);
}

// The arguments of `begin`, after the data. All but the last one may be missing together.
enum BeginArgument { kBeginTimeout = 1, kBeginCapacity, kBeginRoom, kBeginRetry, kBeginMayBlock };

PyObject* Begin(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  if (count != 2 && count != kBeginMayBlock + 1) {
    return PyErr_Format(PyExc_TypeError, "begin() takes 2 or %d arguments", kBeginMayBlock + 1);
  }
  const auto* bound = reinterpret_cast<BoundFunction*>(self);
  return Guarded([&]() -> PyObject* {
    NativeCaller::CallTerms terms;
    terms.may_block = given[count - 1] == Py_True;
    if (count != 2) {
      terms.timeout_s = py::handle(given[kBeginTimeout]).cast<std::optional<double>>();
      terms.response_capacity = py::handle(given[kBeginCapacity]).cast<std::optional<int64_t>>();
      terms.room = py::handle(given[kBeginRoom]).cast<uint64_t>();
      terms.retry = py::handle(given[kBeginRetry]).cast<int64_t>();
    }
    return bound->native->Start(bound->native_object, *bound->function, given[0], terms)
        .release()
        .ptr();
  });
}

PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  PyObject* native = nullptr;
  PyObject* handle = nullptr;
  static const char* names[] = {"native", "handle", nullptr};
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "OO:BoundFunction",
                                  const_cast<char**>(names), &native, &handle) == 0) {
    return nullptr;
  }
  return Guarded([&]() -> PyObject* {
    if (!py::isinstance<NativeCaller>(native) || !py::isinstance<FunctionHandle>(handle)) {
      throw py::type_error("a BoundFunction is made of a NativeCaller and a FunctionHandle");
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) throw py::error_already_set();
    auto* bound = reinterpret_cast<BoundFunction*>(self);
    bound->native_object = Py_NewRef(native);
    bound->handle_object = Py_NewRef(handle);
    bound->native = py::cast<NativeCaller*>(py::handle(native));
    bound->function = py::cast<const FunctionHandle*>(py::handle(handle));
    return self;
  });
}

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<BoundFunction*>(self)->native_object);
  Py_XDECREF(reinterpret_cast<BoundFunction*>(self)->handle_object);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* GetHandle(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<BoundFunction*>(self)->handle_object);
}

PyMethodDef methods[] = {
    {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(CallByPosition)),
     METH_FASTCALL, "call($self, data, timeout, response_capacity, out, dtype, retry, /)\n--\n\n"},
    {"begin", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Begin)), METH_FASTCALL,
     "begin($self, data, timeout, response_capacity, room, retry, may_block, /)\n--\n\n"},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"handle", GetHandle, nullptr, "The function's FunctionHandle.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(CallWithKeywords)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, nullptr},
};

PyType_Spec spec = {
    "invoker._native._invoker.BoundFunction",
    sizeof(BoundFunction),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    slots,
};

}  // namespace

PyObject* MakeBoundFunctionType() {
  for (size_t i = 0; i < kArguments; ++i) {
    if (interned_names[i] == nullptr) interned_names[i] = PyUnicode_InternFromString(kNames[i]);
    if (interned_names[i] == nullptr) return nullptr;
  }
  return PyType_FromSpec(&spec);
}

}  // namespace invoker::python
