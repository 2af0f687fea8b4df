// One reliable, connectionless endpoint (FI_EP_RDM), bound to one completion queue and one address
// vector. Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_FABRIC_ENDPOINT_H_
#define INVOKER_SRC_TRANSPORT_FABRIC_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/transport/fabric/address_vector.h"
#include "src/transport/fabric/completion_queue.h"
#include "src/transport/fabric/domain.h"
#include "src/transport/spin_escape/guarded_calls.h"

namespace invoker::transport {

class Endpoint {
 public:
  // Opens, binds and enables. `cq` and `av` must outlive the endpoint.
  static absl::StatusOr<Endpoint> Open(const Fabric& fabric, const Domain& domain,
                                       const CompletionQueue& cq, const AddressVector& av);
  Endpoint(Endpoint&&) = default;
  Endpoint& operator=(Endpoint&&) = default;
  // One that is lost stays open.
  ~Endpoint();

  // Takes it out of use for good. Only address(), lost() and quarantined() may be called after
  // this. With `close`, closes the provider's endpoint now, unless it is lost.
  void Quarantine(bool close);
  bool quarantined() const { return quarantined_ || lost(); }

  // Where a peer can keep calls for ever (Profile::peers_share_locks): what is posted to poster(),
  // and reads of `cq`, with which this was opened and which is read no more once it has gone, are
  // left after `limit`. Does nothing elsewhere, or where that cannot be done.
  void Guard(const Profile& profile, absl::Duration limit, CompletionQueue* cq);

  // A peer has kept one for too long, so that neither can be called any more.
  bool lost() const { return guard_ != nullptr && guard_->lost(); }

  // Takes what the provider has said of faults that it found. Returns how many.
  uint64_t TakeFaults();

  // The raw bytes of fi_getname: what a peer inserts into its address vector.
  const std::string& address() const { return address_; }

  // For everything but posts.
  fid_ep* get() const { return endpoint_.get(); }
  // For posts, of those kinds that GuardedCalls has.
  fid_ep* poster() const { return poster_; }

 private:
  Endpoint(FidPtr<fid_eq> events, FidPtr<fid_ep> endpoint, std::string address)
      : events_(std::move(events)),
        endpoint_(std::move(endpoint)),
        address_(std::move(address)),
        poster_(endpoint_.get()) {}

  FidPtr<fid_eq> events_;  // Profile::faults_need_event_queue; else nullptr
  FidPtr<fid_ep> endpoint_;
  std::string address_;
  fid_ep* poster_;
  std::unique_ptr<GuardedCalls> guard_;
  bool quarantined_ = false;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_FABRIC_ENDPOINT_H_
