// Decides how many executors of a lease over several servers each of them is asked for.

#ifndef INVOKER_SRC_INVOKE_GROUP_LEASES_LEASE_PLACEMENT_H_
#define INVOKER_SRC_INVOKE_GROUP_LEASES_LEASE_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace invoker {

// What a server can still give, as far as anybody knows.
struct LeaseRoom {
  int64_t free = 0;   // executors, now
  int64_t cores = 0;  // executors, once others have left
  bool open = true;   // it may be asked
  size_t domain = 0;  // what executors are to be spread over
};

// A number below `count`.
using PickBelow = std::function<size_t(size_t count)>;

// For each room, in their order, how many of `executors`: each one where the most are free, or,
// once none are, where there are the most at all, so that the refusal comes from a server that has
// some. All 0 if no room is open.
//
// Where rooms have several domains, each goes to the domain with the fewest of these executors, of
// those where one is free.
//
// With `pick`, each one goes to the better of two rooms that it picks: what they say may be old,
// and many clients that all went to the emptiest one would fill it.
std::vector<uint32_t> PlaceExecutors(std::vector<LeaseRoom> rooms, uint32_t executors,
                                     const PickBelow& pick = nullptr);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_LEASES_LEASE_PLACEMENT_H_
