#include "src/bootstrap/messages/compatibility.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace invoker::bootstrap {
namespace {

// A provider's version, as `invoker fabrics` prints it.
std::string VersionText(uint32_t version) {
  if (version == 0) return "unknown, of an older Invoker";
  return absl::StrCat(version >> 16, ".", version & 0xffff);
}

class Differences {
 public:
  template <typename Value>
  void Compare(absl::string_view what, const Value& worker, const Value& client) {
    if (worker == client) return;
    found_.push_back(
        absl::StrCat(what, " (worker: ", Text(worker), ", client: ", Text(client), ")"));
  }
  std::string Join() const { return absl::StrJoin(found_, ", "); }

 private:
  static std::string Text(uint32_t value) { return absl::StrCat(value); }
  static std::string Text(const std::string& value) { return absl::StrCat("\"", value, "\""); }

  std::vector<std::string> found_;
};

// The fabric that is asked for must be one of the worker's. Another version of one of them is told
// apart from a fabric that the worker does not have.
absl::Status CheckFabric(const std::vector<FabricOffer>& offers, const FabricIdentity& wanted) {
  std::vector<std::string> names;
  for (const FabricOffer& offer : offers) {
    if (offer.identity.provider == wanted.provider) {
      return CheckSameFabric(offer.identity, wanted, offer.same_host_only);
    }
    names.push_back(absl::StrCat("\"", offer.identity.provider, "\""));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("client and worker use different fabrics: they differ in provider (worker: ",
                   absl::StrJoin(names, ", "), ", client: \"", wanted.provider,
                   "\"); choose a provider that both sides have"));
}

absl::Status CheckRequest(const WorkerInfo& worker, const OpenSessionRequest& client) {
  if (client.endpoint_address.empty()) {
    return absl::InvalidArgumentError("the client's endpoint address is empty");
  }
  if (client.endpoint_address.size() > kMaxAddressBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the client's endpoint address has ", client.endpoint_address.size(),
                     " bytes; at most ", kMaxAddressBytes, " are accepted"));
  }
  if (client.window_bytes == 0) {
    return absl::InvalidArgumentError("the client asks for a window of 0 bytes");
  }
  if (client.window_bytes != client.response_window.length) {
    return absl::InvalidArgumentError(
        absl::StrCat("the client asks for windows of ", client.window_bytes,
                     " bytes, but its own response window has ", client.response_window.length,
                     "; both directions have the same size"));
  }
  if (client.window_bytes > worker.window_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the client asks for windows of ", client.window_bytes,
                     " bytes, but this worker gives at most ", worker.window_bytes,
                     "; ask for less, or start the worker with a larger --window"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string DescribeVersions(const ProtocolVersions& versions) {
  if (versions.oldest == versions.newest) return absl::StrCat("protocol version ", versions.newest);
  return absl::StrCat("protocol versions ", versions.oldest, " to ", versions.newest);
}

absl::StatusOr<uint32_t> AgreeOnVersion(const ProtocolVersions& worker,
                                        const ProtocolVersions& client) {
  const uint32_t newest = std::min(worker.newest, client.newest);
  if (newest >= std::max(worker.oldest, client.oldest)) return newest;
  return absl::FailedPreconditionError(
      absl::StrCat("the releases of client and worker are too far apart: the worker speaks ",
                   DescribeVersions(worker), ", the client ", DescribeVersions(client),
                   "; upgrade the ", worker.newest < client.newest ? "worker" : "client"));
}

std::string DescribeDifferences(const FabricIdentity& worker, const FabricIdentity& client,
                                bool same_host) {
  Differences fabric;
  fabric.Compare("provider", worker.provider, client.provider);
  fabric.Compare("protocol", worker.protocol, client.protocol);
  fabric.Compare("protocol_version", worker.protocol_version, client.protocol_version);
  fabric.Compare("address format", worker.address_format, client.address_format);
  if (same_host) {
    fabric.Compare("provider version, by which shared memory is laid out",
                   VersionText(worker.shared_layout), VersionText(client.shared_layout));
  }
  return fabric.Join();
}

absl::Status CheckSameFabric(const FabricIdentity& worker, const FabricIdentity& client,
                             bool same_host) {
  const std::string differences = DescribeDifferences(worker, client, same_host);
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("client and worker use different fabrics: they differ in ", differences,
                   "; choose the same provider on both sides, with the same version of libfabric"));
}

absl::Status CheckCompatible(const WorkerInfo& worker, const OpenSessionRequest& client) {
  // The other fields may mean something else in another version, so nothing is said about them.
  const absl::Status spoken =
      AgreeOnVersion(worker.protocol_versions, {client.protocol_version, client.protocol_version})
          .status();
  if (!spoken.ok()) return spoken;
  if (absl::Status status = CheckFabric(worker.fabrics, client.fabric); !status.ok()) return status;
  return CheckRequest(worker, client);
}

}  // namespace invoker::bootstrap
