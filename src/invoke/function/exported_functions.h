// The functions that a loaded shared library exports, read from its dynamic symbol table as the
// loader has it in memory.

#ifndef INVOKER_SRC_INVOKE_FUNCTION_EXPORTED_FUNCTIONS_H_
#define INVOKER_SRC_INVOKE_FUNCTION_EXPORTED_FUNCTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace invoker {

struct ExportedFunction {
  std::string name;
  void* address = nullptr;
};

// Those of the library itself, not of the libraries that it needs: defined there, global, visible,
// under a name that C code may have given them. Names that begin with an underscore are left out:
// C++ functions ("_Z...") and what compilers and linkers add (_init, __gcov_dump). Sorted by name.
// `handle` is dlopen's. INTERNAL if the table cannot be read. Any thread.
absl::StatusOr<std::vector<ExportedFunction>> ExportedFunctions(void* handle);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FUNCTION_EXPORTED_FUNCTIONS_H_
