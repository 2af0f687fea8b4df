// Memory that Python code may look at for the duration of a call only.

#ifndef INVOKER_SRC_PYTHON_NATIVE_SERVER_CALL_MEMORY_H_
#define INVOKER_SRC_PYTHON_NATIVE_SERVER_CALL_MEMORY_H_

#include <pybind11/pybind11.h>

#include <cstddef>

namespace invoker::python {

// Lends memory to Python code as a memoryview, and finds out whether any of it is still referred to
// afterwards: by the view's slices, or by arrays over them. With the GIL.
class CallMemory {
 public:
  // Throws Python's exception.
  CallMemory(void* data, size_t size, bool writable);
  ~CallMemory();
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  // Borrowed.
  PyObject* view() const { return view_; }

  // Releases the view, and returns false if the memory is referred to nevertheless. What only the
  // garbage collector can free is collected. Leaves no Python exception.
  bool TakeBack();

 private:
  PyObject* memory_ = nullptr;
  PyObject* view_ = nullptr;
};

// Once, when the module is imported. False with a Python exception.
bool PrepareCallMemoryType();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_SERVER_CALL_MEMORY_H_
