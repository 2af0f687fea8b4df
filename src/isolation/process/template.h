// The process that executors are forked from, from the inside: see template.cc.
//
// One thread.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_TEMPLATE_H_
#define INVOKER_SRC_ISOLATION_PROCESS_TEMPLATE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/executor_control.pb.h"
#include "src/isolation/process/control_socket.h"
#include "src/isolation/process/executor_main.h"
#include "src/isolation/process/process_setup.h"

namespace invoker {

class Template {
 public:
  Template(UniqueFd control, const ExecutorHooks& hooks)
      : hooks_(hooks), socket_(std::move(control), ControlSocket::Takes::kDescriptors) {}

  int Run();

 private:
  struct Executor {
    uint64_t id;
    uid_t owner;
    absl::Time stopped_at = absl::InfiniteFuture();  // by a signal; infinite: it runs
    bool killed_for_it = false;
  };
  struct End {
    uint64_t id;
    uint32_t wait_status;
    uint64_t cpu_us;
    uid_t owner;
    int scans;  // for strays, since then
    bool was_stopped;
  };

  bool Handle(ControlSocket::Message message);
  void Prepare(const isolation::v1::ToTemplate::Prepare& request);
  void Spawn(const isolation::v1::ToTemplate::Spawn& request, std::vector<UniqueFd> fds);
  [[noreturn]] void Child(const isolation::v1::ToTemplate::Spawn& request,
                          std::vector<UniqueFd> fds, pid_t parent);
  void Reap();
  void NoteStop(Executor* executor, int status);
  // Kills those that have been stopped for too long. When to look again.
  absl::Time LookAtStopped(absl::Duration absence);
  ExecutorUser UserOf(const isolation::v1::ToTemplate::Spawn& request) const {
    ExecutorUser user = user_;
    if (user.several()) user.uid = user.gid = request.user();
    return user;
  }
  bool KillStrays();
  void EndAll();
  void Tell(const isolation::v1::FromTemplate& message) {
    // If the server is gone, the next read says so.
    socket_.Send(message.SerializeAsString(), {}, /*wait=*/true).IgnoreError();
  }

  const ExecutorHooks& hooks_;
  ControlSocket socket_;
  UniqueFd child_events_;
  ExecutorUser user_;
  std::string group_;  // the parent of the server's executors' groups; empty: none
  std::map<pid_t, Executor> executors_;  // that live
  std::vector<End> ends_;                // processes whose strays may still live
  bool strays_ = false;                  // there were some at the last look
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_TEMPLATE_H_
