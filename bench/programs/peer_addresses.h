// Raw endpoint addresses of nobody, as many as wanted, of the form that a fabric's have. A value.

#ifndef INVOKER_BENCH_PROGRAMS_PEER_ADDRESSES_H_
#define INVOKER_BENCH_PROGRAMS_PEER_ADDRESSES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "src/transport/discovery/discovery.h"

namespace invoker::bench {

class PeerAddresses {
 public:
  // UNIMPLEMENTED for a fabric whose addresses cannot be made up.
  static absl::StatusOr<PeerAddresses> For(const transport::FabricChoice& fabric);

  // The next call changes it. Different for every number below 2^24.
  const std::string& Get(uint32_t number);

 private:
  explicit PeerAddresses(uint32_t format) : format_(format) {}

  uint32_t format_;
  std::string raw_;
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_PEER_ADDRESSES_H_
