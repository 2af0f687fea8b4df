// Plain memory that C++ fills without the GIL and Python then owns.

#ifndef INVOKER_SRC_PYTHON_NATIVE_MEMORY_H_
#define INVOKER_SRC_PYTHON_NATIVE_MEMORY_H_

#include <Python.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace invoker::python {

// Bytes of its own. Any thread, no GIL needed. Move-only.
class Memory {
 public:
  Memory() = default;

  // RESOURCE_EXHAUSTED if there is no memory for it. The bytes are undefined at first.
  static absl::StatusOr<Memory> OfSize(size_t size);
  static absl::StatusOr<Memory> CopyOf(absl::Span<const std::byte> bytes);

  size_t size() const { return size_; }
  std::byte* data() const { return data_.get(); }
  absl::Span<std::byte> bytes() const { return {data_.get(), size_}; }

  // Keeps the first `size` bytes only.
  void Truncate(size_t size) { size_ = size; }

  // A writable memoryview of the bytes, which now belong to it. A new reference, or nullptr with a
  // Python exception. Needs the GIL.
  PyObject* IntoView() &&;

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };

  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

// Once, when the module is imported. False with a Python exception.
bool PrepareMemoryType();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_MEMORY_H_
