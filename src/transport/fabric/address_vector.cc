#include "src/transport/fabric/address_vector.h"

#include <netinet/in.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/transport/base/status.h"
#include "src/transport/fabric/process_addresses.h"

namespace invoker::transport {
namespace {

// Whether `raw` can be an address of the format: the provider reads as many bytes as the format
// has, whatever we hand it. `usual`: how many that is where the format does not say; 0: not known.
absl::Status CheckAddress(uint32_t format, size_t usual, absl::string_view raw) {
  if (raw.empty()) return absl::InvalidArgumentError("the endpoint address is empty");
  size_t expected = usual;
  int family = AF_UNSPEC;
  switch (format) {
    case FI_SOCKADDR_IN:
      expected = sizeof(sockaddr_in);
      family = AF_INET;
      break;
    case FI_SOCKADDR_IN6:
      expected = sizeof(sockaddr_in6);
      family = AF_INET6;
      break;
    case FI_ADDR_STR:
      // One name has one form: the provider, which reads up to the first NUL, would have one peer
      // where we have two, and would remove it from under the other.
      if (raw.find('\0') != raw.size() - 1) {
        return absl::InvalidArgumentError(
            "the endpoint address is a string that does not end with its only NUL");
      }
      return absl::OkStatus();
    default:
      break;
  }
  if (expected != 0 && raw.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("the endpoint address has ", raw.size(),
                                                   " bytes; this fabric's have ", expected));
  }
  if (family == AF_UNSPEC) return absl::OkStatus();
  sa_family_t actual;
  memcpy(&actual, raw.data(), sizeof(actual));
  if (actual != family) {
    return absl::InvalidArgumentError(absl::StrCat("the endpoint address is of address family ",
                                                   actual, "; this fabric's are of ", family));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AddressVector> AddressVector::Open(const Fabric& fabric, const Domain& domain) {
  fi_av_attr attributes = {};
  attributes.type = FI_AV_TABLE;
  fid_av* raw = nullptr;
  const int code = fi_av_open(domain.get(), &attributes, &raw, nullptr);
  if (code != 0) return ToStatus("fi_av_open", code);
  return AddressVector(FidPtr<fid_av>(raw), fabric);
}

absl::StatusOr<fi_addr_t> AddressVector::Insert(absl::string_view raw_address) {
  if (absl::Status status = CheckAddress(fabric_->info().addr_format, example_bytes_, raw_address);
      !status.ok()) {
    return status;
  }
  // A copy, because the provider's parameter gives no length and some read past what they need.
  padded_ = InsertedName(raw_address);
  padded_.resize(padded_.size() + 64);
  fi_addr_t address = FI_ADDR_NOTAVAIL;
  const int inserted = fi_av_insert(av_.get(), padded_.data(), 1, &address, 0, nullptr);
  if (inserted < 0) return ToStatus("fi_av_insert", inserted);
  if (inserted != 1 || address == FI_ADDR_NOTAVAIL) {
    return absl::InternalError(absl::StrCat("fi_av_insert: inserted ", inserted,
                                            " of 1 addresses: the provider did not accept the "
                                            "peer's endpoint address"));
  }
  return address;
}

std::string AddressVector::InsertedName(absl::string_view raw_address) const {
  constexpr char kScheme[] = "://";
  std::string name(raw_address);
  const size_t scheme = name.find(kScheme);
  if (!fabric_->profile().alias_own_process || scheme == std::string::npos ||
      !IsProcessAddress(raw_address)) {
    return name;
  }
  // The C library drops slashes at the beginning of a shared memory object's name.
  return name.insert(scheme + sizeof(kScheme) - 1, "/");
}

size_t AddressVector::Lookup(fi_addr_t address, absl::Span<char> raw) const {
  size_t size = raw.size();
  return fi_av_lookup(av_.get(), address, raw.data(), &size) == 0 ? size : 0;
}

absl::Status AddressVector::Remove(fi_addr_t address) {
  const int code = fi_av_remove(av_.get(), &address, 1, 0);
  return code < 0 ? ToStatus("fi_av_remove", code) : absl::OkStatus();
}

}  // namespace invoker::transport
