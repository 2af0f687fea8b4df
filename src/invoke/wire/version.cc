#include "invoker/version.h"

#define INVOKER_TEXT_OF(x) #x
#define INVOKER_TEXT(x) INVOKER_TEXT_OF(x)

namespace invoker {

const char* Version() {
  return INVOKER_TEXT(INVOKER_VERSION_MAJOR) "." INVOKER_TEXT(
      INVOKER_VERSION_MINOR) "." INVOKER_TEXT(INVOKER_VERSION_PATCH);
}

}  // namespace invoker
