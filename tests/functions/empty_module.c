/* A library with a table, and nothing in it. */

#include "invoker/function.h"

static const invoker_module module = {INVOKER_ABI_VERSION, sizeof(invoker_module),
                                      sizeof(invoker_entry), 0, 0};

const invoker_module* invoker_get_module(void) { return &module; }
