// An address vector: raw endpoint addresses in, fi_addr_t out. Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_FABRIC_ADDRESS_VECTOR_H_
#define INVOKER_SRC_TRANSPORT_FABRIC_ADDRESS_VECTOR_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/transport/fabric/domain.h"

namespace invoker::transport {

class AddressVector {
 public:
  // `fabric` must outlive it.
  static absl::StatusOr<AddressVector> Open(const Fabric& fabric, const Domain& domain);

  // An address of the fabric: our own endpoint's. Peers' are as long, unless the fabric's are
  // strings.
  void set_example(absl::string_view raw_address) { example_bytes_ = raw_address.size(); }

  // Inserts one raw address (the bytes of fi_getname). Its length must be the fabric's;
  // fi_av_insert does not check it. INVALID_ARGUMENT for a wrong length; an insert that does not
  // return 1 is an error that says the count.
  absl::StatusOr<fi_addr_t> Insert(absl::string_view raw_address);

  // Puts the raw address of an entry into `raw`, as far as there is room, and returns how long it
  // is; 0 if the provider does not say. Not every provider gives back exactly what was inserted.
  size_t Lookup(fi_addr_t address, absl::Span<char> raw) const;

  absl::Status Remove(fi_addr_t address);

  fid_av* get() const { return av_.get(); }

 private:
  AddressVector(FidPtr<fid_av> av, const Fabric& fabric) : av_(std::move(av)), fabric_(&fabric) {}

  // Where the provider is told to look for this endpoint.
  std::string InsertedName(absl::string_view raw_address) const;

  FidPtr<fid_av> av_;
  const Fabric* fabric_;
  size_t example_bytes_ = 0;  // 0: not known
  std::string padded_;        // Insert's
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_FABRIC_ADDRESS_VECTOR_H_
