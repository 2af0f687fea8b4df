#include "src/python/native/calls/bound_typed.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <new>

#include "src/python/native/calls/native_caller.h"
#include "src/python/native/guarded.h"
#include "src/python/native/typed/signature_codec.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// Everything that a call needs. In the Python object, which lives as long as all of these.
struct Bound {
  py::object native_object;
  py::object handle_object;
  py::object signature_object;
  NativeCaller* native;
  const FunctionHandle* function;
  const SignatureCodec* signature;
  NativeCaller::CallTerms terms;
};

struct BoundTyped {
  PyObject_HEAD;
  Bound* bound;
};

const Bound& BoundOf(PyObject* self) { return *reinterpret_cast<BoundTyped*>(self)->bound; }

PyObject* Call(PyObject* self, PyObject* positional, PyObject* keywords) {
  const Bound& bound = BoundOf(self);
  if (keywords != nullptr && PyDict_GET_SIZE(keywords) != 0) {
    return PyErr_Format(PyExc_TypeError, "%s takes no keyword arguments; options(...) sets options",
                        bound.function->name.c_str());
  }
  const absl::Span<PyObject* const> arguments(PySequence_Fast_ITEMS(positional),
                                              static_cast<size_t>(PyTuple_GET_SIZE(positional)));
  return Guarded([&] {
    return bound.native->CallTyped(*bound.function, *bound.signature, arguments, bound.terms)
        .release()
        .ptr();
  });
}

// The arguments, and whether it may block.
PyObject* Begin(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  if (count != 2 || !PyTuple_Check(given[0])) {
    return PyErr_Format(PyExc_TypeError, "begin() takes a tuple and a bool");
  }
  const Bound& bound = BoundOf(self);
  return Guarded([&] {
    NativeCaller::CallTerms terms = bound.terms;
    terms.may_block = given[1] == Py_True;
    const absl::Span<PyObject* const> arguments(PySequence_Fast_ITEMS(given[0]),
                                                static_cast<size_t>(PyTuple_GET_SIZE(given[0])));
    return bound.native
        ->StartTyped(bound.native_object.ptr(), *bound.function, *bound.signature, arguments, terms)
        .release()
        .ptr();
  });
}

PyObject* New(PyTypeObject* type, PyObject* positional, PyObject*) {
  return Guarded([&]() -> PyObject* {
    const auto arguments = py::reinterpret_borrow<py::tuple>(positional);
    if (arguments.size() != 6 || !py::isinstance<NativeCaller>(arguments[0]) ||
        !py::isinstance<FunctionHandle>(arguments[1]) ||
        !py::isinstance<SignatureCodec>(arguments[2])) {
      throw py::type_error(
          "a BoundTyped is made of a NativeCaller, a FunctionHandle, a Signature and three "
          "options");
    }
    NativeCaller::CallTerms terms;
    terms.timeout_s = arguments[3].cast<std::optional<double>>();
    terms.response_capacity = arguments[4].cast<std::optional<int64_t>>();
    terms.retry = arguments[5].cast<int64_t>();
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) throw py::error_already_set();
    reinterpret_cast<BoundTyped*>(self)->bound =
        new Bound{arguments[0],
                  arguments[1],
                  arguments[2],
                  arguments[0].cast<NativeCaller*>(),
                  arguments[1].cast<const FunctionHandle*>(),
                  arguments[2].cast<const SignatureCodec*>(),
                  terms};
    return self;
  });
}

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<BoundTyped*>(self)->bound;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* GetHandle(PyObject* self, void*) {
  return py::object(BoundOf(self).handle_object).release().ptr();
}

PyMethodDef methods[] = {
    {"begin", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Begin)), METH_FASTCALL,
     "begin($self, arguments, may_block, /)\n--\n\n"},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"handle", GetHandle, nullptr, "The function's FunctionHandle.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(Call)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, nullptr},
};

PyType_Spec spec = {
    "invoker._native._invoker.BoundTyped",
    sizeof(BoundTyped),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    slots,
};

}  // namespace

PyObject* MakeBoundTypedType() { return PyType_FromSpec(&spec); }

}  // namespace invoker::python
