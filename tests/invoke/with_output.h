// Options of a call whose output goes to memory of the caller's.

#ifndef INVOKER_TESTS_INVOKE_WITH_OUTPUT_H_
#define INVOKER_TESTS_INVOKE_WITH_OUTPUT_H_

#include "invoker/client_options.h"

namespace invoker {

inline CallOptions WithOutput(const CallOutput& output, CallOptions options = {}) {
  options.output = output;
  return options;
}

}  // namespace invoker

#endif  // INVOKER_TESTS_INVOKE_WITH_OUTPUT_H_
