// One reliable, connectionless endpoint (FI_EP_RDM), bound to one completion queue and one address
// vector. Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_ENDPOINT_H_
#define INVOKER_SRC_TRANSPORT_ENDPOINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/transport/address_vector.h"
#include "src/transport/completion_queue.h"
#include "src/transport/domain.h"

namespace invoker::transport {

class Endpoint {
 public:
  // Opens, binds and enables. `cq` and `av` must outlive the endpoint.
  static absl::StatusOr<Endpoint> Open(const Fabric& fabric, const Domain& domain,
                                       const CompletionQueue& cq, const AddressVector& av);

  // The raw bytes of fi_getname: what a peer inserts into its address vector.
  const std::string& address() const { return address_; }

  fid_ep* get() const { return endpoint_.get(); }

 private:
  Endpoint(FidPtr<fid_ep> endpoint, std::string address)
      : endpoint_(std::move(endpoint)), address_(std::move(address)) {}

  FidPtr<fid_ep> endpoint_;
  std::string address_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_ENDPOINT_H_
