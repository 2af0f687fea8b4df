#include "tests/failure/execution_marks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace invoker::failure {

absl::StatusOr<std::unique_ptr<ExecutionMarks>> ExecutionMarks::Create() {
  const char* temporary = getenv("TMPDIR");
  std::string directory = std::string(temporary != nullptr ? temporary : "/tmp") + "/failureXXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return absl::ErrnoToStatus(errno, directory);
  const std::string path = directory + "/marks";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  // Leased executors are processes of another user's.
  if (file < 0 || fchmod(file, 0666) != 0 || chmod(directory.c_str(), 0711) != 0 ||
      ftruncate(file, kMostCalls) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  void* mapped = mmap(nullptr, kMostCalls, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap of " + path);
  setenv(kMarksVariable, path.c_str(), 1);
  return std::unique_ptr<ExecutionMarks>(
      new ExecutionMarks(std::move(directory), path, static_cast<Mark*>(mapped)));
}

ExecutionMarks::ExecutionMarks(std::string directory, std::string path, Mark* marks)
    : directory_(std::move(directory)), path_(std::move(path)), marks_(marks) {}

ExecutionMarks::~ExecutionMarks() {
  munmap(marks_, kMostCalls);
  unlink(path_.c_str());
  rmdir(directory_.c_str());
  unsetenv(kMarksVariable);
}

uint64_t ExecutionMarks::NextNumber() { return std::min(next_.fetch_add(1), kMostCalls); }

uint64_t ExecutionMarks::given() const { return std::min(next_.load(), kMostCalls); }

uint64_t ExecutionMarks::ExecutedTwice() const {
  return std::count_if(marks_, marks_ + given(), [](const Mark& mark) { return mark.load() > 1; });
}

uint64_t ExecutionMarks::Executed(const std::vector<uint64_t>& numbers) const {
  return static_cast<uint64_t>(std::count_if(
      numbers.begin(), numbers.end(), [this](uint64_t number) { return executed(number) > 0; }));
}

}  // namespace invoker::failure
