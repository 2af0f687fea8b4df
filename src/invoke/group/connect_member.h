// Opens sessions with the shared executors of a group's member.

#ifndef INVOKER_SRC_INVOKE_GROUP_CONNECT_MEMBER_H_
#define INVOKER_SRC_INVOKE_GROUP_CONNECT_MEMBER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "invoker/client.h"
#include "src/cluster/member.h"

namespace invoker {

// So many sessions, all under one lease; 0: as many as the member has executors. Blocks as
// Client::Connect does. ABORTED: another server, or another run of this one, is at its address.
absl::StatusOr<std::vector<std::shared_ptr<Client>>> ConnectMember(const cluster::Member& member,
                                                                   const ClientOptions& options,
                                                                   size_t sessions);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_CONNECT_MEMBER_H_
