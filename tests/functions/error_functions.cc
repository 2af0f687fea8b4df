// Functions that fail, each in its own way, and one that takes its time.

#include <time.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "invoker/function.h"

// Fails; the message is the input.
INVOKER_FUNCTION(test.fail, input, output) {
  return invoker::Result::Error(std::string(input.text()));
}

// Input: a little-endian int32 and a message. Fails with them.
INVOKER_FUNCTION(test.fail_with_code, input, output) {
  std::int32_t code;
  if (input.size() < sizeof(code)) {
    return invoker::Result::Error("test.fail_with_code wants an int32 and a message");
  }
  std::memcpy(&code, input.data(), sizeof(code));
  return invoker::Result::Error(code, std::string(input.text().substr(sizeof(code))));
}

// Throws a std::runtime_error with the input as its text.
INVOKER_FUNCTION(test.throw, input, output) { throw std::runtime_error(std::string(input.text())); }

// Throws what is no std::exception.
INVOKER_FUNCTION(test.throw_int, input, output) { throw 42; }

// Says that one byte more than there is room for would do.
INVOKER_FUNCTION(test.too_small, input, output) {
  return invoker::Result::TooSmall(output.capacity() + 1);
}

// Input: a little-endian uint32, microseconds. Answers nothing after that time: the stand-in for a
// function that computes for so long.
INVOKER_FUNCTION(test.sleep, input, output) {
  std::uint32_t microseconds;
  if (input.size() != sizeof(microseconds)) {
    return invoker::Result::Error("test.sleep wants 4 bytes: a uint32 number of microseconds");
  }
  std::memcpy(&microseconds, input.data(), sizeof(microseconds));
  timespec rest = {static_cast<time_t>(microseconds / 1000000),
                   static_cast<long>(microseconds % 1000000) * 1000};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) == EINTR) {
  }
  return invoker::Result::Ok();
}
