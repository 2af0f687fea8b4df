#include "src/invoke/group/connect_member.h"

#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/client/open_sessions.h"
#include "src/invoke/connect/worker_contact.h"

namespace invoker {
namespace {

// The most that a worker can have that is well.
constexpr size_t kMostExecutors = 1024;

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<Client>>> ConnectMember(const cluster::Member& member,
                                                                   const ClientOptions& options,
                                                                   size_t sessions) {
  const std::string& server = member.server;
  absl::StatusOr<std::shared_ptr<const WorkerContact>> contact =
      WorkerContact::Find(server, options);
  if (!contact.ok()) return contact.status();
  if (member.incarnation != 0 && (*contact)->info().incarnation != member.incarnation) {
    return absl::AbortedError(
        absl::StrCat("the server at ", server,
                     " is not the one that the cluster knows there: it has been "
                     "started again, or another one has its address"));
  }
  if (absl::Status status = (*contact)->Usable(); !status.ok()) return status;
  if (sessions == 0) {
    sessions = (*contact)->info().executors;
    if (sessions == 0 || sessions > kMostExecutors) {
      return absl::InternalError(absl::StrCat("the server at ", server, " says that it has ",
                                              sessions, " executors, which none has"));
    }
  }
  LeaseTerms terms;
  terms.peer_timeout = options.peer_timeout;
  absl::StatusOr<std::shared_ptr<ClientLease>> lease =
      ClientLease::Acquire(*std::move(contact), terms, options.connect_timeout);
  if (!lease.ok()) return lease.status();
  absl::StatusOr<std::vector<std::unique_ptr<Client>>> clients =
      OpenSessions(*lease, sessions, options);
  if (!clients.ok()) return clients.status();
  return std::vector<std::shared_ptr<Client>>(std::make_move_iterator(clients->begin()),
                                              std::make_move_iterator(clients->end()));
}

}  // namespace invoker
