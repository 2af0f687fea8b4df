// The endpoints of one executor on all of its fabrics.
//
// A fabric has one EndpointSet, or two where a wait object slows polling: then one set's endpoints
// have a wait object, and the other's do without. The set stays the same for a session's life.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_FABRIC_ENDPOINTS_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_FABRIC_ENDPOINTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "src/invoke/executor/endpoint_set.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class FabricEndpoints {
 public:
  // No endpoint is opened yet. At most 65536 fabrics.
  FabricEndpoints(std::vector<transport::FabricChoice> fabrics, ExecutorShared* shared,
                  uint16_t first_number, const transport::ReactorOptions& options);

  // Any thread: the set that the fabric's next session goes to. Endpoints without a wait object
  // serve the first few sessions while the executor is always hot: polling them takes longer with
  // every peer.
  EndpointSet& ForNewSession(size_t fabric, bool always_hot) const;
  // All sets. Their number stays the same.
  const std::vector<std::unique_ptr<EndpointSet>>& sets() const { return sets_; }
  size_t fabrics() const { return second_sets_.size(); }

  // Executor thread only, for the rest.

  // nullptr if no open endpoint of the fabric has such a session.
  ExecutorEndpoint* Find(SessionKey key) const;
  // Visits open endpoints that may have to be polled: all of them, or the fabric's.
  void ForEach(absl::FunctionRef<void(ExecutorEndpoint*)> visit) const;
  void ForEachOf(size_t fabric, absl::FunctionRef<void(ExecutorEndpoint*)> visit) const;

 private:
  // One for each fabric, and then the second ones.
  std::vector<std::unique_ptr<EndpointSet>> sets_;
  std::vector<EndpointSet*> second_sets_;  // by fabric; nullptr: it has one set only
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_FABRIC_ENDPOINTS_H_
