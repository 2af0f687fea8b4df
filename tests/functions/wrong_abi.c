/* A library built for a version of the ABI that does not exist yet. All else is left out, since a
 * loader has no business looking at it. */

#include "invoker/function.h"

const invoker_module* invoker_get_module(void) {
  static const uint32_t abi_version[1] = {INVOKER_ABI_VERSION + 41};
  return (const invoker_module*)(const void*)abi_version;
}
