// A library that defines a function twice.

#include "invoker/function.h"

INVOKER_FUNCTION(twin, input, output) { return invoker::Result::Ok(); }
INVOKER_FUNCTION(twin, input, output) { return invoker::Result::Ok(); }
