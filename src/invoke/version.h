// The release that these headers belong to, in the order of semantic versions (semver.org). Clients
// and workers of different releases understand each other: docs/reference/compatibility.md.

#ifndef INVOKER_SRC_INVOKE_VERSION_H_
#define INVOKER_SRC_INVOKE_VERSION_H_

#include "invoker/export.h"

// The one place of the numbers: packages and file names read them here.
#define INVOKER_VERSION_MAJOR 0
#define INVOKER_VERSION_MINOR 1
#define INVOKER_VERSION_PATCH 0

namespace invoker {

// The release of the library that the program runs with, such as "0.1.0".
INVOKER_EXPORT const char* Version();

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_VERSION_H_
