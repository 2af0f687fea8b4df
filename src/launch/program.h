// A program that this one has started, and which ends with it.

#ifndef INVOKER_SRC_LAUNCH_PROGRAM_H_
#define INVOKER_SRC_LAUNCH_PROGRAM_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/unique_fd.h"

namespace invoker::launch {

// Instead of a descriptor.
inline constexpr int kOfThisProcess = -1;
inline constexpr int kNowhere = -2;

struct ProgramSettings {
  std::vector<std::string> command;              // a path, or a name in PATH, and its arguments
  std::map<std::string, std::string> variables;  // beside those of this process
  std::string folder;                            // where it runs; empty: where this one does
  int output = kOfThisProcess;                   // its standard output
  int errors = kOfThisProcess;
};

class Program {
 public:
  // NOT_FOUND if it cannot be started.
  static absl::StatusOr<std::unique_ptr<Program>> Start(const ProgramSettings& settings);
  // Kills it if it has not ended, and waits for its end.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // A descriptor that is readable once it has ended.
  int end_fd() const { return end_.get(); }
  // Does nothing once it has ended.
  void Signal(int number);
  // Blocks until it has ended, for `limit` at most: then false.
  bool AwaitEnd(absl::Duration limit);
  // Blocks until it has ended. As a shell says it: its exit status, or 128 and a signal's number.
  int Wait();

 private:
  Program(pid_t pid, UniqueFd end) : pid_(pid), end_(std::move(end)) {}

  const pid_t pid_;
  const UniqueFd end_;
  bool ended_ = false;
  int status_ = 0;
};

// Runs a command, and returns what it has printed on standard output. UNAVAILABLE with what it has
// said if it fails; CANCELLED, after killing it, once `stop_fd` is readable (-1: never).
absl::StatusOr<std::string> RunCommand(const std::vector<std::string>& command, int stop_fd);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_PROGRAM_H_
