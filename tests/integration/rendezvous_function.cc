// Functions that a test can hold as long as it likes, and one that says in which order it ran.

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "invoker/function.h"

// Input: a path. Writes a byte into the FIFO "path.started", and ends when it has read one from
// "path.release". Answers "held".
INVOKER_FUNCTION(test.rendezvous, input, output) {
  const std::string path(input.text());
  const int started = open((path + ".started").c_str(), O_WRONLY | O_CLOEXEC);
  const int release = open((path + ".release").c_str(), O_RDONLY | O_CLOEXEC);
  char byte = 1;
  const bool held =
      started >= 0 && release >= 0 && write(started, &byte, 1) == 1 && read(release, &byte, 1) == 1;
  if (started >= 0) close(started);
  if (release >= 0) close(release);
  if (!held) return invoker::Result::Error("test.rendezvous: no FIFOs at " + path);
  output.Append("held");
  return invoker::Result::Ok();
}

// Input: a path. Writes a byte into the FIFO "path.started", and another one when nobody waits for
// it any more, which it does until then.
INVOKER_FUNCTION(test.until_cancelled, input, output) {
  const std::string path(input.text());
  const int started = open((path + ".started").c_str(), O_WRONLY | O_CLOEXEC);
  const char byte = 1;
  bool told = started >= 0 && write(started, &byte, 1) == 1;
  while (told && !output.cancelled()) sched_yield();
  told = told && write(started, &byte, 1) == 1;
  if (started >= 0) close(started);
  return invoker::Result::Error(told ? "cancelled" : "test.until_cancelled: no FIFO at " + path);
}

// Answers how often it has run before, in this process: 8 bytes.
INVOKER_FUNCTION(test.order, input, output) {
  static std::atomic<uint64_t> runs{0};
  static_cast<void>(input);
  const uint64_t before = runs.fetch_add(1);
  output.Append(&before, sizeof(before));
  return invoker::Result::Ok();
}
