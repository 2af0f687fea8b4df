// invoker::UntypedReference for Python; the rest of it is in invoker/reference.py.

#ifndef INVOKER_SRC_PYTHON_NATIVE_TYPED_NATIVE_REFERENCE_H_
#define INVOKER_SRC_PYTHON_NATIVE_TYPED_NATIVE_REFERENCE_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>

#include "invoker/reference.h"
#include "src/python/native/server/fork_mark.h"

namespace invoker::python {

// With the GIL. A forked process has no part in it: what it does there has no effect.
class NativeReference {
 public:
  explicit NativeReference(UntypedReference reference);
  ~NativeReference();
  NativeReference(const NativeReference&) = delete;
  NativeReference& operator=(const NativeReference&) = delete;

  // What `value` refers by, if it is an invoker.Reference; else nullptr.
  static const NativeReference* Find(pybind11::handle value);

  const UntypedReference& reference() const { return *reference_; }
  const std::string& type() const { return reference_->type(); }
  size_t bytes() const { return reference_->bytes(); }
  pybind11::bytes id() const;
  bool freed() const { return reference_->freed(); }
  void Free();

 private:
  UntypedReference* reference_;
  const ForkMark mark_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_TYPED_NATIVE_REFERENCE_H_
