#include <iterator>
#include <string>

#include "tests/faults/faulty_objects.h"

namespace invoker::faults {

using Attempt = transport::EndpointFaults::Attempt;

FaultyEndpoint::FaultyEndpoint(fid_ep* endpoint, std::shared_ptr<DomainState> state)
    : state_(std::move(state)),
      posts_(endpoint),
      names_(&endpoint->cm, this),
      closing_(&endpoint->fid, this) {
  FaultControl& control = FaultControl::Get();
  ++control.counts.endpoints;
  const FaultPlan* const plan = control.plan();
  state_->is_victim = plan != nullptr && state_->dice.Hits(plan->victims);
  names_.ours().getname = &GetName;
  posts_.judge = [this](const Attempt& attempt) { return Judge(attempt); };
}

FaultyEndpoint::~FaultyEndpoint() { --FaultControl::Get().counts.endpoints; }

int FaultyEndpoint::Judge(const Attempt& attempt) {
  FaultControl& control = FaultControl::Get();
  ++control.counts.posts;
  const FaultPlan* const plan = control.plan();
  const bool may_fail =
      plan != nullptr && (state_->is_victim || state_->victims.count(attempt.peer) > 0);
  // A slot is used again for other peers.
  if (may_fail) {
    state_->of_victims.insert(attempt.context);
  } else if (!state_->of_victims.empty()) {
    state_->of_victims.erase(attempt.context);
  }
  if (plan == nullptr) return 0;
  if (may_fail && state_->dice.Hits(plan->post_fails)) {
    constexpr int kCodes[] = {FI_EIO, FI_EHOSTUNREACH, FI_ECONNREFUSED, FI_EINVAL, FI_ENOMEM};
    ++control.counts.post_fails;
    return -kCodes[state_->dice.Draw() % std::size(kCodes)];
  }
  if (refusals_left_ == 0 && state_->dice.Hits(plan->post_again)) {
    refusals_left_ = state_->dice.UpTo(plan->longest_burst);
  }
  if (refusals_left_ == 0) return 0;
  --refusals_left_;
  ++control.counts.again;
  return -FI_EAGAIN;
}

int FaultyEndpoint::GetName(fid* endpoint, void* address, size_t* length) {
  FaultyEndpoint& self = Names::From(reinterpret_cast<fid_ep*>(endpoint)->cm);
  const int code = self.names_.provider().getname(endpoint, address, length);
  if (code == 0 && self.state_->is_victim) {
    FaultControl::Get().AddVictim(std::string(static_cast<const char*>(address), *length));
  }
  return code;
}

}  // namespace invoker::faults
