// What the references among the arguments of a call stand for, at the executor that runs it.

#ifndef INVOKER_SRC_PYTHON_NATIVE_TYPED_FOUND_DATA_H_
#define INVOKER_SRC_PYTHON_NATIVE_TYPED_FOUND_DATA_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <string>

#include "invoker/function_abi.h"
#include "invoker/values.h"
#include "src/invoke/executor/store/stored_data.h"

namespace invoker::python {

// With the GIL.
class FoundData {
 public:
  // `call` runs on this thread, or has been deferred. nullptr: nothing is found.
  explicit FoundData(const invoker_call* call) : call_(call) {}

  // The data of a reference, of whatever type; nullptr: there is none.
  std::shared_ptr<const StoredData> Find(const std::byte* reference) const;

  // ValueReader::FindReferred; the context is a FoundData.
  static bool FindAs(void* context, const std::byte* reference, const std::string& type,
                     ValueReader* found);
  // Keeps in place what FindAs has found last.
  pybind11::capsule TakeOwner();
  // Why FindAs has found nothing.
  const std::string& problem() const { return problem_; }

 private:
  const invoker_call* const call_;
  std::shared_ptr<const StoredData> last_;
  std::string problem_;
};

// What a reference that was pickled is in the function that gets it: the array, which keeps its
// memory. Throws Python's LookupError.
pybind11::object FindArray(const invoker_call* call, const std::string& reference);

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_TYPED_FOUND_DATA_H_
