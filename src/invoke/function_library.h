// A shared library of functions (function.h), loaded into this process.
//
// The object owns the loaded library: destroying it unloads the code, so it must outlive every
// registry that it was registered in and every call into it. Load may be called from any thread;
// the const methods from several at once.

#ifndef INVOKER_SRC_INVOKE_FUNCTION_LIBRARY_H_
#define INVOKER_SRC_INVOKE_FUNCTION_LIBRARY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/invoke/function_registry.h"

namespace invoker {

class FunctionLibrary {
 public:
  // Loads the library and reads its table of functions. This runs the library's static
  // constructors. A path without a slash is a file in the current directory; the system's library
  // path is never searched for it. Errors, each with the path and with what to do:
  //   NotFound            no such file
  //   PermissionDenied    not readable
  //   InvalidArgument     not a shared library for this machine, or not a regular file; a table
  //   with
  //                       no functions, with a bad name, or with one name twice
  //   FailedPrecondition  needs symbols or libraries that are missing; has no invoker_get_module;
  //   was
  //                       built for another version of the ABI
  static absl::StatusOr<std::unique_ptr<FunctionLibrary>> Load(const std::string& path);

  FunctionLibrary(const FunctionLibrary&) = delete;
  FunctionLibrary& operator=(const FunctionLibrary&) = delete;
  ~FunctionLibrary();

  // As given to Load.
  const std::string& path() const { return path_; }

  // In the library's order.
  const std::vector<FunctionEntry>& functions() const { return functions_; }

  // Adds all of them, or, if one is refused, none.
  absl::Status RegisterAll(FunctionRegistry* registry) const;

 private:
  FunctionLibrary(std::string path, void* handle);

  absl::Status ReadTable();

  std::string path_;
  void* handle_;  // dlopen's
  std::vector<FunctionEntry> functions_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FUNCTION_LIBRARY_H_
