// What client and worker tell each other before the fabric takes over, as plain values.
//
// These mirror proto/bootstrap.proto so that nothing outside src/bootstrap includes a gRPC or
// protobuf header. Addresses and keys in here are secrets of the session: never log them.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/transport/notification.h"

namespace invoker::bootstrap {

// Version of the bootstrap messages and of the data path's wire format together. Raised whenever
// either changes.
inline constexpr uint32_t kProtocolVersion = 2;

// The largest raw endpoint address that is accepted: four times the largest that any provider is
// known to use.
inline constexpr size_t kMaxAddressBytes = 256;

// A longer reason is cut, and so is a longer list of fabrics.
inline constexpr size_t kMaxReasonBytes = 512;
inline constexpr size_t kMaxFabrics = 64;

// What must be equal on both sides for two endpoints to understand each other.
struct FabricIdentity {
  std::string provider;           // fi_fabric_attr.prov_name
  uint32_t protocol = 0;          // fi_ep_attr.protocol
  uint32_t protocol_version = 0;  // fi_ep_attr.protocol_version
  uint32_t address_format = 0;    // fi_info.addr_format
};

// A remotely writable region of memory. `base` is what the initiator adds offsets to: a virtual
// address or 0, by fabric.
struct WindowDescriptor {
  uint64_t base = 0;
  uint64_t length = 0;  // bytes
  uint64_t key = 0;     // fi_mr_key
};

// A function's id is its position in WorkerInfo::functions. Ids hold for the life of the server
// process.
struct FunctionInfo {
  std::string name;
};

// One fabric that a worker serves.
struct FabricOffer {
  FabricIdentity identity;
  // A raw address in the identity's format, to route by: it selects the client's interface. Not
  // that of an endpoint, since none may be open yet: sessions get theirs in the reply. May be empty
  // where the fabric needs no routing.
  std::string source_address;
  bool same_host_only = false;  // reaches clients with the worker's host_identity only
};

struct WorkerInfo {
  uint32_t protocol_version = kProtocolVersion;
  std::string software_version;
  std::vector<FabricOffer> fabrics;  // what the worker takes to be the best first
  transport::Notification notification =
      transport::Notification::kAuto;  // what the worker was told to use
  uint64_t window_bytes = 0;           // largest window per session and direction
  uint32_t executors = 0;
  uint64_t host_identity = 0;  // tells a client on the same host from one that is not
  bool draining = false;
  std::vector<FunctionInfo> functions;
};

struct OpenSessionRequest {
  uint32_t protocol_version = kProtocolVersion;
  FabricIdentity fabric;
  std::string endpoint_address;      // raw bytes from fi_getname
  WindowDescriptor response_window;  // where the executor writes responses
  uint64_t window_bytes = 0;         // wanted per direction; must equal response_window.length
  uint64_t first_sequence = 1;       // of the first request
  uint16_t response_session = 0;  // the session number the executor puts into response immediates
  transport::Notification notification = transport::Notification::kAuto;
  // Why the client has given up write-with-immediate on this fabric before it opened this session;
  // empty if it has not. For the worker's log.
  std::string downgrade_reason;
  // The most bytes that the client's endpoint takes inside a message; 0: none.
  uint32_t eager_bytes = 0;
};

struct OpenSessionReply {
  uint64_t handle = 0;           // names the session in later bootstrap calls
  uint32_t executor = 0;         // which of the worker's executors serves it
  std::string endpoint_address;  // raw bytes from fi_getname
  WindowDescriptor request_window;
  uint16_t request_session = 0;  // the session number the client puts into request immediates
  uint32_t epoch = 0;            // goes into every header of this session
  // What the first probe uses: kWriteImm or kSendAfterWrite.
  transport::Notification notification = transport::Notification::kWriteImm;
  // The most bytes that the executor's endpoint takes inside a message; 0: none.
  uint32_t eager_bytes = 0;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_H_
