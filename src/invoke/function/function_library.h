// A shared library of functions, loaded into this process: of those that invoker_get_module tells
// of (function.h), or, where there is no such symbol, of rFaaS functions, which are all plain C
// functions that the library exports (exported_functions.h): nothing but the name says what they
// are, so each must have rFaaS's signature, and what is no such function is to be hidden.
//
// The object owns the loaded library: destroying it unloads the code, so it must outlive every
// registry that it was registered in and every call into it. Load may be called from any thread;
// the const methods from several at once.

#ifndef INVOKER_SRC_INVOKE_FUNCTION_FUNCTION_LIBRARY_H_
#define INVOKER_SRC_INVOKE_FUNCTION_FUNCTION_LIBRARY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/invoke/function/function_registry.h"
#include "src/invoke/function/rfaas_function.h"

namespace invoker {

struct FunctionLibraryOptions {
  std::string name;                     // what messages call it; empty: its path
  OverrunHandler on_overrun = nullptr;  // for rFaaS functions
};

class FunctionLibrary {
 public:
  // Loads the library and reads its table of functions. This runs the library's static
  // constructors. A path without a slash is a file in the current directory; the system's library
  // path is never searched for it. Errors, each with the name and with what to do:
  //   NotFound            no such file
  //   PermissionDenied    not readable
  //   InvalidArgument     not a shared library for this machine, or not a regular file; a table
  //                       with no functions, with a bad name, or with one name twice
  //   FailedPrecondition  needs symbols or libraries that are missing; has no invoker_get_module
  //                       and exports no plain C function; was built for another version of the
  //                       ABI
  static absl::StatusOr<std::unique_ptr<FunctionLibrary>> Load(
      const std::string& path, const FunctionLibraryOptions& options = {});

  FunctionLibrary(const FunctionLibrary&) = delete;
  FunctionLibrary& operator=(const FunctionLibrary&) = delete;
  ~FunctionLibrary();

  // Load's argument: the name, or else the path.
  const std::string& name() const { return name_; }

  // In the library's order; rFaaS functions by name.
  const std::vector<FunctionEntry>& functions() const { return functions_; }

  // Adds all of them, or, if one is refused, none.
  absl::Status RegisterAll(FunctionRegistry* registry) const;

 private:
  FunctionLibrary(std::string name, void* handle);

  absl::Status ReadTable(const FunctionLibraryOptions& options);
  absl::Status ReadExports(const FunctionLibraryOptions& options);

  std::string name_;
  void* handle_;                                // dlopen's
  std::vector<RfaasFunction> rfaas_functions_;  // contexts of functions_: never moved
  std::vector<FunctionEntry> functions_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FUNCTION_FUNCTION_LIBRARY_H_
