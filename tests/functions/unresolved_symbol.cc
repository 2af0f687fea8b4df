// A library that was not linked with what it uses.

#include "invoker/function.h"

extern "C" int invoker_test_symbol_that_nobody_defines(void);

INVOKER_FUNCTION(unresolved, input, output) {
  output.Resize(static_cast<std::size_t>(invoker_test_symbol_that_nobody_defines()));
  return invoker::Result::Ok();
}
