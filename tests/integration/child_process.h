// A child process of a test, with its standard streams captured. Killed and reaped with the object,
// and killed by the kernel if the test dies first.
//
// Start and destroy on the test's main thread: the kernel ties the child's life to the thread that
// started it.

#ifndef INVOKER_TESTS_INTEGRATION_CHILD_PROCESS_H_
#define INVOKER_TESTS_INTEGRATION_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace invoker {

// Long enough for a loaded machine and a sanitizer: what takes longer hangs.
inline constexpr absl::Duration kPatience = absl::Seconds(120);

class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> command = {};      // the program's path first
    std::string input = {};                     // what it reads from standard input
    int stdin_fd = -1;                          // instead of `input`
    int stdout_fd = -1;                         // instead of capturing it
    std::vector<std::string> environment = {};  // "NAME=value" to set, "NAME" to remove
  };

  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const Options& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number);

  // Waits for the end: the exit status, or 128 plus the signal. Kills it if it takes longer than
  // kPatience.
  int Wait();

  // What it has written so far; all of it after Wait.
  std::string Output();
  std::string Errors();

  // Waits until it has written this to standard error. False if it has ended, or does not.
  bool AwaitErrors(const std::string& text);

  // The first line on standard output. DEADLINE_EXCEEDED, or UNAVAILABLE if the output ends before.
  absl::StatusOr<std::string> FirstLine();

 private:
  ChildProcess(pid_t pid, int out, int err);
  void Read(int out, int err);

  pid_t pid_;
  int exit_code_ = -1;  // once it has been reaped
  absl::Mutex mutex_;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  std::string errors_ ABSL_GUARDED_BY(mutex_);
  bool output_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread reader_;
};

// Runs a program to its end.
struct Finished {
  int exit_code = -1;
  std::string output;
  std::string errors;
};
Finished RunToEnd(const ChildProcess::Options& options);

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_CHILD_PROCESS_H_
