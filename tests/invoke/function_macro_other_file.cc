// A second file of the same "library", in a namespace of its own.

#include "invoker/function.h"

namespace elsewhere {

INVOKER_FUNCTION(other.file, input, output) {
  output.Append("other");
  return invoker::Result::Ok();
}

}  // namespace elsewhere
