// The endpoints of one executor that its thread polls: those with sessions in every turn, and those
// of former sessions now and then, until they have settled. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_POLLED_ENDPOINTS_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_POLLED_ENDPOINTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "src/invoke/executor/executor_endpoint.h"
#include "src/invoke/executor/fabric_endpoints.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class PolledEndpoints {
 public:
  // Both outlive it.
  PolledEndpoints(ExecutorShared* shared, const FabricEndpoints* all)
      : shared_(shared), all_(all) {}

  // Sorts the endpoints anew if they have changed (ExecutorShared::rearrange).
  void Arrange() {
    if (shared_->rearrange) Rearrange();
  }

  // Whether an endpoint has sessions.
  bool live() const { return !live_.empty(); }
  // One turn of each of these. True if anything happened.
  bool Turn() {
    bool active = false;
    for (ExecutorEndpoint* endpoint : live_) active |= endpoint->Turn();
    return active;
  }
  // The turns of the first of them.
  uint64_t turns() const { return live() ? live_.front()->reactor()->counters().turns : 0; }
  void Publish() {
    for (ExecutorEndpoint* endpoint : live_) endpoint->Publish();
  }

  // One turn of each endpoint without sessions.
  void PollLeaving();

  // The reactors of all these endpoints: an event for any of them ends a sleep.
  absl::Span<transport::Reactor* const> reactors() const { return reactors_; }
  // Whether one of them awaits a check (EndpointWatch).
  bool awaits_check() const { return awaits_check_; }

 private:
  void Rearrange();

  ExecutorShared* const shared_;
  const FabricEndpoints* const all_;
  std::vector<ExecutorEndpoint*> live_;
  std::vector<ExecutorEndpoint*> leaving_;
  std::vector<transport::Reactor*> reactors_;
  bool awaits_check_ = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_POLLED_ENDPOINTS_H_
