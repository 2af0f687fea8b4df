// The functions that the failure report calls.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "invoker/function.h"
#include "tests/failure/marks.h"

namespace {

using invoker::failure::Changed;
using invoker::failure::kMostCalls;
using invoker::failure::kNumberBytes;
using invoker::failure::Mark;

std::atomic<Mark*> g_marks{nullptr};

// 0, or errno.
int OpenMarks(const char* path) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return errno;
  void* mapped = mmap(nullptr, kMostCalls, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  if (mapped == MAP_FAILED) return error;
  g_marks.store(static_cast<Mark*>(mapped));
  return 0;
}

const int g_opened = [] {
  const char* path = std::getenv(invoker::failure::kMarksVariable);
  return path == nullptr ? 0 : OpenMarks(path);
}();

}  // namespace

// Input: the path of the marks, for a process that has not got it from its environment.
INVOKER_FUNCTION(failure.open, input, output) {
  const int error = OpenMarks(std::string(input.text()).c_str());
  if (error != 0) return invoker::Result::Error(std::strerror(error));
  return invoker::Result::Ok();
}

// Counts the call, and answers what marks.h says.
INVOKER_FUNCTION(failure.work, input, output) {
  Mark* marks = g_marks.load(std::memory_order_relaxed);
  if (marks == nullptr) return invoker::Result::Error("the marks are not open");
  uint64_t number;
  if (input.size() < sizeof(number)) return invoker::Result::Error("no number");
  std::memcpy(&number, input.data(), sizeof(number));
  if (number >= kMostCalls) return invoker::Result::Error("too large a number");
  marks[number].fetch_add(1, std::memory_order_relaxed);
  if (!output.Resize(input.size())) return invoker::Result::TooSmall(input.size());
  std::memcpy(output.data(), &number, sizeof(number));
  for (size_t i = kNumberBytes; i < input.size(); ++i) {
    output.data()[i] = Changed(input[i], number, i);
  }
  return invoker::Result::Ok();
}

// Answers the number of the process that runs it.
INVOKER_FUNCTION(failure.process, input, output) {
  const std::string number = std::to_string(getpid());
  if (!output.Resize(number.size())) return invoker::Result::TooSmall(number.size());
  std::memcpy(output.data(), number.data(), number.size());
  return invoker::Result::Ok();
}

// Ends its process by SIGSEGV, as a wild pointer does.
INVOKER_FUNCTION(failure.crash, input, output) {
  raise(SIGSEGV);
  return invoker::Result::Ok();
}
