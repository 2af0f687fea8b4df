// A library that blocks when it is loaded, as long as the file is there that the environment
// variable INVOKER_TEST_HANG names; without the variable, always.

#include <unistd.h>

#include <cstdlib>

#include "src/invoke/function.h"

namespace {

struct Hang {
  Hang() {
    const char* file = getenv("INVOKER_TEST_HANG");
    while (file == nullptr || access(file, F_OK) == 0) pause();
  }
} hang;

}  // namespace

INVOKER_FUNCTION(hanging.echo, input, output) {
  const auto text = input.text();
  output.Append(text.data(), text.size());
  return invoker::Result::Ok();
}
