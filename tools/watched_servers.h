// Servers that are asked for their status again and again, and what each has done between its last
// two answers.
//
// They are asked at once, so that one that does not answer holds up none of the others.

#ifndef INVOKER_TOOLS_WATCHED_SERVERS_H_
#define INVOKER_TOOLS_WATCHED_SERVERS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/client_credentials.h"
#include "src/base/work_threads.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/messages/worker_status.h"

namespace invoker::tools {

// A server's answer.
struct ServerLook {
  bootstrap::ServerStatus status;
  // What its functions have done since the answer before; all of them with 0 if this is the first.
  std::map<bootstrap::FunctionTable::Key, bootstrap::FunctionCounts> since;
  double seconds = 0;  // since then; 0: this is the first
};

// One thread.
class WatchedServers {
 public:
  // A server has `timeout` for each answer.
  WatchedServers(ClientCredentials credentials, absl::Duration timeout)
      : credentials_(std::move(credentials)), timeout_(timeout) {}

  // The servers that there are now, by address. What was seen of them before stays.
  void Keep(const std::vector<std::string>& addresses);

  // Asks each that does not owe an answer already, and waits for all answers, but for no longer
  // than `limit`. An answer that comes later is the next look's.
  std::map<std::string, absl::StatusOr<ServerLook>> Look(absl::Duration limit);

 private:
  class Server;

  const ClientCredentials credentials_;
  const absl::Duration timeout_;
  std::map<std::string, std::shared_ptr<Server>> servers_;
  bootstrap::WorkThreads threads_{256};
};

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_WATCHED_SERVERS_H_
