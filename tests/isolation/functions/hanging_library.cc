// A library that blocks when it is loaded, as long as the file is there that the environment
// variable INVOKER_TEST_HANG names; without the variable, always. If INVOKER_TEST_BEGUN names a
// FIFO, writes a byte into it before.

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "invoker/function.h"

namespace {

struct Hang {
  Hang() {
    if (const char* fifo = getenv("INVOKER_TEST_BEGUN"); fifo != nullptr) {
      const int fd = open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      // Its reader would wait in vain.
      if (fd < 0 || write(fd, "b", 1) != 1) abort();
      close(fd);
    }
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
