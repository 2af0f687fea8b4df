// Says more of a function that it defines later.

#include "invoker/function.h"

INVOKER_CONCURRENCY(later, 2);

INVOKER_FUNCTION(later, input, output) { return invoker::Result::Ok(); }
