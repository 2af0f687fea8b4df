// A library of functions, for invoker_server --functions=.

#include <string>
#include <string_view>

#include "invoker/function.h"

// The text's bytes in the opposite order.
INVOKER_FUNCTION(reverse, (std::string_view text)->std::string) {
  return std::string(text.rbegin(), text.rend());
}
