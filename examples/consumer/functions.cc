// A library of functions, for invoker_server --functions=.

#include <algorithm>

#include "invoker/function.h"

// The input's bytes in the opposite order.
INVOKER_FUNCTION(reverse, input, output) {
  if (!output.Resize(input.size())) return invoker::Result::TooSmall(input.size());
  std::reverse_copy(input.begin(), input.end(), output.data());
  return invoker::Result::Ok();
}
