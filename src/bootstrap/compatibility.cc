#include "src/bootstrap/compatibility.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace invoker::bootstrap {
namespace {

class Differences {
 public:
  template <typename Value>
  void Compare(absl::string_view what, const Value& worker, const Value& client) {
    if (worker == client) return;
    found_.push_back(
        absl::StrCat(what, " (worker: ", Text(worker), ", client: ", Text(client), ")"));
  }
  bool empty() const { return found_.empty(); }
  std::string Join() const { return absl::StrJoin(found_, ", "); }

 private:
  static std::string Text(uint32_t value) { return absl::StrCat(value); }
  static std::string Text(const std::string& value) { return absl::StrCat("\"", value, "\""); }

  std::vector<std::string> found_;
};

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

absl::Status CheckCompatible(const WorkerInfo& worker, const OpenSessionRequest& client) {
  Differences software;
  software.Compare("protocol version", worker.protocol_version, client.protocol_version);
  if (!software.empty()) {
    // The other fields may mean something else in another version, so nothing is said about them.
    return absl::FailedPreconditionError(
        absl::StrCat("client and worker are of different releases: they differ in ",
                     software.Join(), "; install the same release on both sides"));
  }
  Differences fabric;
  fabric.Compare("provider", worker.fabric.provider, client.fabric.provider);
  fabric.Compare("protocol", worker.fabric.protocol, client.fabric.protocol);
  fabric.Compare("protocol_version", worker.fabric.protocol_version,
                 client.fabric.protocol_version);
  fabric.Compare("address format", worker.fabric.address_format, client.fabric.address_format);
  if (!fabric.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "client and worker use different fabrics: they differ in ", fabric.Join(),
        "; choose the same provider on both sides, with the same version of libfabric"));
  }
  return CheckRequest(worker, client);
}

}  // namespace invoker::bootstrap
