// The other side of a benchmark: a program of ours in a process of its own, pinned to a core.

#ifndef INVOKER_BENCH_HARNESS_SERVER_PROCESS_H_
#define INVOKER_BENCH_HARNESS_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker::bench {

// One thread.
class ServerProcess {
 public:
  struct Options {
    std::vector<std::string> command;      // the program first; a relative path is beside this
                                           // program's own package: see ProgramPath
    int core = -1;                         // -1: not pinned, whatever this process is
    std::vector<std::string> environment;  // "NAME=value", added
  };

  // Starts it and waits up to a minute for its first line on standard output. Standard error goes
  // through. It dies with this process: SIGINT, SIGTERM and SIGHUP first let every child end
  // cleanly, and whatever else ends the calling thread kills it. So call this on the main thread.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(const Options& options);
  // SIGTERM, then SIGKILL after ten seconds. Resumes it first.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& first_line() const { return first_line_; }

  // Another line of standard output. Blocks.
  absl::StatusOr<std::string> ReadLine();
  // A line to its standard input.
  absl::Status WriteLine(absl::string_view line);

  // SIGSTOP, and returns once it has really stopped; SIGCONT. Not while it has something of ours
  // under way.
  absl::Status Pause();
  absl::Status Resume();

  // Nanoseconds of processor time, user and system, of all its threads so far.
  absl::StatusOr<int64_t> ProcessorTimeNs() const;
  // Resident bytes, from /proc.
  absl::StatusOr<int64_t> ResidentBytes() const;

 private:
  ServerProcess(std::string name, pid_t pid, int in, int out);
  // `deadline_ns` by the monotonic clock; 0: none.
  absl::StatusOr<std::string> ReadLineUntil(int64_t deadline_ns);
  // What became of it, for messages, once its output has ended.
  std::string DescribeEnd();

  std::string name_;
  pid_t pid_;
  int in_;   // its standard input
  int out_;  // its standard output
  std::string first_line_;
  std::string unread_;  // read from out_, but not yet a line that was asked for
  bool paused_ = false;
  bool reaped_ = false;
  int end_ = 0;  // the status that waitpid gave, once reaped
};

// An invoker_server on core `core` with the benchmark's functions ("noop" returns as many bytes as
// it got, untouched; "echo" copies them), with defaults but for `more` ("--hot-timeout=0") and a
// peer_timeout that no benchmark reaches.
struct InvokerServer {
  std::unique_ptr<ServerProcess> process;
  std::string target;  // "127.0.0.1:PORT" for Client::Connect
};
absl::StatusOr<InvokerServer> StartInvokerServer(int core, const std::string& provider,
                                                 const std::string& address,
                                                 const std::vector<std::string>& more);

// The path of a built program, by its place in the tree ("tools/invoker_server"), wherever this
// program was started.
std::string ProgramPath(absl::string_view program);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_HARNESS_SERVER_PROCESS_H_
