// echo: the input, unchanged. What a call costs when the function costs nothing.

#include "invoker/function.h"

INVOKER_FUNCTION(echo, input, output) {
  output.Append(input.data(), input.size());
  return invoker::Result::Ok();
}
