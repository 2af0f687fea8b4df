/* A library with a name that the C++ macro would have refused. */

#include "invoker/function.h"

static int64_t Nothing(invoker_call* call) {
  (void)call;
  return 0;
}

static const invoker_entry entries[] = {{.name = "no spaces\n", .function = Nothing}};

static const invoker_module module = {INVOKER_ABI_VERSION, sizeof(invoker_module),
                                      sizeof(invoker_entry), 1, entries};

const invoker_module* invoker_get_module(void) { return &module; }
