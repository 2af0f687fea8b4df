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
    {.name = "fault.dereference_null", .function = DereferenceNull, .doc = "writes through a null pointer"},
    {.name = "fault.exit", .function = Exit, .doc = "ends its process with status 3"},
    {.name = "fault.leak", .function = Leak, .doc = "allocates memory and uses it, without end"},
    {.name = "fault.never_return", .function = NeverReturn, .doc = "runs for ever"},
};

const invoker_module* invoker_get_module(void) {
  static const invoker_module module = {INVOKER_ABI_VERSION, sizeof(invoker_module),
                                        sizeof(invoker_entry), 4, entries};
  return &module;
}
