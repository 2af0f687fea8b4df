// Takes leases on several servers, which a group then has together.

#ifndef INVOKER_SRC_INVOKE_GROUP_ACQUIRE_LEASES_H_
#define INVOKER_SRC_INVOKE_GROUP_ACQUIRE_LEASES_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "invoker/lease.h"
#include "src/cluster/member_watch.h"

namespace invoker {

// ClientGroup::Acquire's. The members are `watch`'s at the moment, which also knows their load if
// they are in etcd.
absl::StatusOr<std::vector<std::shared_ptr<Lease>>> AcquireLeases(
    const std::vector<cluster::Member>& members, cluster::MemberWatch* watch,
    const LeaseOptions& options);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_ACQUIRE_LEASES_H_
