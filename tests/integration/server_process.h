// A real invoker_server in a process of its own.

#ifndef INVOKER_TESTS_INTEGRATION_SERVER_PROCESS_H_
#define INVOKER_TESTS_INTEGRATION_SERVER_PROCESS_H_

#include <signal.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tests/integration/child_process.h"

namespace invoker {

inline constexpr char kTestFunctions[] = "tests/functions/test_functions.so";
inline constexpr char kCFunctions[] = "tests/functions/c_functions.so";
inline constexpr char kRendezvousFunction[] = "tests/integration/rendezvous_function.so";

struct ServerProcessOptions {
  std::string listen = "127.0.0.1:0";
  std::string provider = {};  // empty: not given
  std::string notify = {};
  std::string window = {};
  // Tests share few cores, and one that polls keeps the others from running.
  std::string hot_timeout = "50us";
  int executors = 1;
  std::vector<std::string> functions = {kTestFunctions, kCFunctions, kRendezvousFunction};
  std::vector<std::string> more = {};         // further arguments
  std::vector<std::string> environment = {};  // ChildProcess's
  // What starts it, itself becoming it: the program's path first.
  std::vector<std::string> prefix = {};
};

// An address of the loopback interface that nobody else on this machine is likely to use. A server
// that is to come back on its port listens there: on 127.0.0.1 another program may take it
// meanwhile.
std::string LoopbackAddressOfItsOwn();

// The server's command line.
std::vector<std::string> ServerCommand(const ServerProcessOptions& options);

class ServerProcess {
 public:
  // Returns when the server has said that it is ready.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(const ServerProcessOptions& options);
  // Kills it, if it still runs.
  ~ServerProcess();

  const std::string& address() const { return address_; }
  uint16_t port() const;
  const nlohmann::json& ready() const { return ready_; }
  pid_t pid() const { return child_->pid(); }
  std::string log() { return child_->Errors(); }

  // SIGTERM, and waits for the end. The exit status.
  int Stop();
  // Waits until this is in the log. False if the server has ended, or does not say it.
  bool AwaitLog(const std::string& text) { return child_->AwaitErrors(text); }
  void Terminate() { child_->Signal(SIGTERM); }
  void Signal(int number) { child_->Signal(number); }
  void Suspend() { Signal(SIGSTOP); }
  void Resume() { Signal(SIGCONT); }
  int Wait() { return child_->Wait(); }

  // For a server that a test makes end with an error.
  void set_ends_cleanly(bool value) { ends_cleanly_ = value; }
  bool ends_cleanly() const { return ends_cleanly_; }

  // SIGKILL, waits, and removes what the dead server left in shared memory.
  void Kill();

 private:
  ServerProcess(std::unique_ptr<ChildProcess> child, nlohmann::json ready);

  std::unique_ptr<ChildProcess> child_;
  nlohmann::json ready_;
  std::string address_;
  bool ends_cleanly_ = true;
};

// The files in /dev/shm of a process that was started by this one, or of this one: not those of
// earlier processes with the same number.
std::vector<std::string> SharedMemoryOf(pid_t pid);

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_SERVER_PROCESS_H_
