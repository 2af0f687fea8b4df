// The client's side of marks.h: makes the file, gives out numbers, and judges in the end.
//
// Any thread. The file goes with the object.

#ifndef INVOKER_TESTS_FAILURE_EXECUTION_MARKS_H_
#define INVOKER_TESTS_FAILURE_EXECUTION_MARKS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/failure/marks.h"

namespace invoker::failure {

class ExecutionMarks {
 public:
  // Sets kMarksVariable for processes that are started from now on.
  static absl::StatusOr<std::unique_ptr<ExecutionMarks>> Create();
  ~ExecutionMarks();
  ExecutionMarks(const ExecutionMarks&) = delete;
  ExecutionMarks& operator=(const ExecutionMarks&) = delete;

  const std::string& path() const { return path_; }

  // The number of a new call. Calls beyond kMostCalls all get kMostCalls, which is
  // RESOURCE_EXHAUSTED.
  uint64_t NextNumber();
  uint64_t given() const;

  uint32_t executed(uint64_t number) const { return marks_[number].load(); }
  // Calls that have been executed more than once.
  uint64_t ExecutedTwice() const;
  // Those of `numbers` that have been executed.
  uint64_t Executed(const std::vector<uint64_t>& numbers) const;

 private:
  ExecutionMarks(std::string directory, std::string path, Mark* marks);

  const std::string directory_;
  const std::string path_;
  Mark* const marks_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace invoker::failure

#endif  // INVOKER_TESTS_FAILURE_EXECUTION_MARKS_H_
