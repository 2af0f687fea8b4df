// What functions do when they are wrong, each in its own way: for watching that a lease keeps its
// executors' faults to itself. Nothing that one would call for its result. In C, without a helper.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "invoker/function.h"

// Each store is through a volatile pointer, so that the compiler leaves it in.
static int64_t DereferenceNull(invoker_call* call) {
  volatile int* volatile nowhere = NULL;
  (void)call;
  *nowhere = 1;
  return 0;
}

static int64_t Exit(invoker_call* call) {
  (void)call;
  _exit(3);
}

// Takes memory without end, and never asks whether it got it.
static int64_t Leak(invoker_call* call) {
  const size_t step = (size_t)1 << 20;
  volatile int forever = 1;
  (void)call;
  while (forever) {
    char* volatile memory = malloc(step);
    memset(memory, 1, step);
  }
  return 0;
}

static int64_t NeverReturn(invoker_call* call) {
  volatile int forever = 1;
  (void)call;
  while (forever) {
  }
  return 0;
}

static const invoker_entry entries[] = {
    {"fault.dereference_null", DereferenceNull, 0, "writes through a null pointer", 0},
    {"fault.exit", Exit, 0, "ends its process with status 3", 0},
    {"fault.leak", Leak, 0, "allocates memory and uses it, without end", 0},
    {"fault.never_return", NeverReturn, 0, "runs for ever", 0},
};

const invoker_module* invoker_get_module(void) {
  static const invoker_module module = {INVOKER_ABI_VERSION, sizeof(invoker_module),
                                        sizeof(invoker_entry), 4, entries};
  return &module;
}
