// Takes other leases, in the background, for the executors of a group whose servers were lost.
//
// A thread of its own. What fails is tried again after 100 ms, then after twice as long each time,
// up to a second. A lease that a function has ended, or its ttl, is not replaced.

#ifndef INVOKER_SRC_INVOKE_GROUP_LEASES_LEASE_REPLACER_H_
#define INVOKER_SRC_INVOKE_GROUP_LEASES_LEASE_REPLACER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/lease.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {

class LeaseReplacer {
 public:
  using LeasePtr = std::shared_ptr<Lease>;

  // All are called on the thread.
  struct Places {
    // Leases of so many executors in all, or of fewer, with a life of `ttl`; 0: the servers'.
    std::function<absl::StatusOr<std::vector<LeasePtr>>(uint32_t executors, absl::Duration ttl)>
        acquire;
    // Uploads the group's code to `added`, and puts it in the place of the leases in `lost`.
    std::function<absl::Status(const std::vector<LeasePtr>& lost, const LeasePtr& added)> bring;
    // Takes out a lease that was brought and has no executor in use.
    std::function<void(const LeasePtr& added)> drop;
    // Puts the client in the place of one that was lost.
    std::function<absl::Status(size_t executor, std::shared_ptr<Client> client)> replace;
  };

  // `leases`: in the order of their executors, the first of which has number 0. `ttl`: as in
  // LeaseOptions, from now.
  LeaseReplacer(const std::vector<LeasePtr>& leases, absl::Duration ttl, Places places);
  // Blocks while a lease is being taken.
  ~LeaseReplacer();
  LeaseReplacer(const LeaseReplacer&) = delete;
  LeaseReplacer& operator=(const LeaseReplacer&) = delete;

  // Once. RESOURCE_EXHAUSTED without a thread.
  absl::Status Start();

  // The executor has been lost. Any thread; does not block.
  void Lost(size_t executor) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing is replaced any more, but for what is under way. Any thread; does not block.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes out of `lost` what has been replaced, or never will be.
  void Replace(std::set<size_t>* lost);
  // Puts the executors of `lease` in the places of `executors`, which are as many, and takes these
  // out of `lost`. Returns whether all of them have been replaced.
  bool Use(const LeasePtr& lease, const std::vector<size_t>& executors, std::set<size_t>* lost);

  const Places places_;
  const CallDeadline until_;
  std::vector<LeasePtr> owners_;  // by executor; the thread's alone once there is one
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<size_t> lost_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // uses all of the above
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_LEASES_LEASE_REPLACER_H_
