// Takes leases on several servers, which a group then has together.

#ifndef INVOKER_SRC_INVOKE_GROUP_LEASES_ACQUIRE_LEASES_H_
#define INVOKER_SRC_INVOKE_GROUP_LEASES_ACQUIRE_LEASES_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "invoker/lease.h"
#include "src/cluster/member_watch.h"

namespace invoker {

// ClientGroup::Acquire's. The members are `watch`'s, which also knows their load if they are in
// etcd. While it waits in line there, it looks at them anew every five seconds, and gives up its
// place in line for that.
absl::StatusOr<std::vector<std::shared_ptr<Lease>>> AcquireLeases(cluster::MemberWatch* watch,
                                                                  const LeaseOptions& options);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_LEASES_ACQUIRE_LEASES_H_
