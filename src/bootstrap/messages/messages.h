// What client and worker tell each other before the fabric takes over, as plain values.
//
// These mirror proto/bootstrap.proto so that nothing outside src/bootstrap includes a gRPC or
// protobuf header. Addresses and keys in here are secrets of the session: never log them.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_MESSAGES_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "invoker/data_auth.h"
#include "invoker/lease_terms.h"
#include "invoker/notification.h"
#include "src/bootstrap/messages/data_keys.h"
#include "src/bootstrap/messages/function_filter.h"

namespace invoker::bootstrap {

// Version of the bootstrap messages and of the data path's wire format together. Raised whenever
// either changes so that the other side must know.
inline constexpr uint32_t kProtocolVersion = 6;
// The oldest one that is still spoken; docs/reference/compatibility.md says for how long.
inline constexpr uint32_t kOldestProtocolVersion = 6;

// Those that one side speaks.
struct ProtocolVersions {
  uint32_t oldest = kOldestProtocolVersion;
  uint32_t newest = kProtocolVersion;
};

// The largest raw endpoint address that is accepted: four times the largest that any provider is
// known to use.
inline constexpr size_t kMaxAddressBytes = 256;

// A longer reason is cut, and so is a longer list of fabrics.
inline constexpr size_t kMaxReasonBytes = 512;
inline constexpr size_t kMaxFabrics = 64;

// What has become of a request that a client wrote into its session's window, as far as the
// executor knows.
enum class RequestState : uint8_t {
  kNotArrived,
  kInHand,    // it, or another one before it, is being run
  kAnswered,  // or dropped: nothing more is to come of it
};

// What must be equal on both sides for two endpoints to understand each other.
struct FabricIdentity {
  std::string provider;           // fi_fabric_attr.prov_name
  uint32_t protocol = 0;          // fi_ep_attr.protocol
  uint32_t protocol_version = 0;  // fi_ep_attr.protocol_version
  uint32_t address_format = 0;    // fi_info.addr_format
  // The provider's release (fi_fabric_attr.prov_version) where its processes on one host share
  // memory, which each release may lay out in another way; else 0. Compared within one host only.
  // Releases of Invoker that did not know this field say 0 as well.
  uint32_t shared_layout = 0;
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
  std::string name;            // empty: not for whom it is told, and so is the rest
  std::string doc = {};        // one line for people
  std::string signature = {};  // empty: bytes; otherwise src/invoke/function/signature.h's
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

// A fabric that the worker's machine has, and why the worker does not offer it. For people.
struct UnservedFabric {
  std::string provider;
  std::string reason;  // at most kMaxReasonBytes printable characters
};

// What can be leased: executors of one's own, each one core and some memory.
struct Capacity {
  uint32_t cores = 0;  // 0: the worker leases none
  uint32_t free_cores = 0;
  uint64_t memory_bytes = 0;
  uint64_t free_memory_bytes = 0;
  bool allow_upload = false;
  bool python = false;   // has executors for Python functions
  uint32_t waiting = 0;  // leases that wait in line
};

// How many heartbeats fit into the time after which a silent peer is given up.
inline constexpr int kHeartbeatsPerTimeout = 5;
// How often a client looks meanwhile whether its calls get stuck, for each of them.
inline constexpr int kLooksPerHeartbeat = 2;

inline constexpr size_t kMaxTenantBytes = 128;

struct UsageRecord {
  std::string tenant;
  // Which of the server's leases, from 1: not its id. 0: a sum over all leases of the tenant that
  // have ended.
  uint64_t lease = 0;
  uint32_t executors = 0;
  bool open = false;
  ResourceUsage usage;
  bool contributed = false;  // a sum of what other servers have added here

  // How long one lease has been open: its time counts once for each executor.
  absl::Duration held() const {
    return executors == 0 ? usage.lease_time : usage.lease_time / executors;
  }
};

// Messages on the data path that led to nothing, for one reason.
struct DropCount {
  std::string reason;
  uint64_t count = 0;
};

// A server that is about to add what its tenants have used to another's counters.
struct Contribution {
  uint64_t contributor = 0;  // random: which server
  FabricIdentity fabric;
  std::string endpoint_address;
  std::vector<std::string> tenants;  // whose rows are wanted; at most kMaxContributedTenants
};

inline constexpr size_t kMaxContributedTenants = 256;

// One row of counters for a tenant: the fields of ResourceUsage in their order, in microseconds
// and, of function and polling time, nanoseconds.
inline constexpr uint32_t kCountersPerRow = 8;

// Where to. As secret as any memory key.
struct ContributionTarget {
  uint64_t accumulator = 0;  // random: another one means that the sums have begun anew
  std::string endpoint_address;
  uint32_t add_method = 0;  // transport::AddMethod
  uint64_t base = 0;
  uint64_t key = 0;
  uint32_t counters = 0;
  std::vector<uint32_t> first_counters;  // each tenant's row begins here
};

struct WorkerInfo {
  ProtocolVersions protocol_versions;
  std::string software_version;
  std::vector<FabricOffer> fabrics;  // what the worker takes to be the best first
  std::vector<UnservedFabric> unserved;
  Notification notification = Notification::kAuto;  // what the worker was told to use
  uint64_t window_bytes = 0;                        // largest window per session and direction
  uint32_t executors = 0;
  uint64_t host_identity = 0;  // tells a client on the same host from one that is not
  uint64_t incarnation = 0;    // another one each time that the worker is started
  bool draining = false;
  std::vector<FunctionInfo> functions;
  Capacity capacity;
  DataAuth data_auth = DataAuth::kOff;  // the least that a session has
};

struct OpenSessionRequest {
  uint32_t protocol_version = kProtocolVersion;  // AgreeOnVersion's
  FabricIdentity fabric;
  std::string endpoint_address;      // raw bytes from fi_getname
  WindowDescriptor response_window;  // where the executor writes responses
  uint64_t window_bytes = 0;         // wanted per direction; must equal response_window.length
  uint64_t first_sequence = 1;       // the first request's
  uint16_t response_session = 0;  // the session number the executor puts into response immediates
  Notification notification = Notification::kAuto;
  // Why the client has given up write-with-immediate on this fabric before it opened this session;
  // empty if it has not. For the worker's log.
  std::string downgrade_reason;
  // The most bytes that the client's endpoint takes inside a message; 0: none.
  uint32_t eager_bytes = 0;
  uint32_t executor = 0;                // which one of the lease's own, if it has some
  DataAuth data_auth = DataAuth::kOff;  // the least that the client wants
  // One that the lease's stream has granted. A secret.
  std::string session_token;
  // The server's to fill in: which functions the session may call, nullptr: all; and its client's
  // name in the policy.
  std::shared_ptr<const FunctionFilter> filter;
  std::string tenant;
};

// 128 random bits that a lease's stream has granted: opens one session.
inline constexpr size_t kSessionTokenBytes = 16;

struct OpenSessionReply {
  uint64_t handle = 0;           // names the session in later bootstrap calls
  uint32_t executor = 0;         // which of the worker's executors serves it
  std::string endpoint_address;  // raw bytes from fi_getname
  WindowDescriptor request_window;
  uint16_t request_session = 0;  // the session number the client puts into request immediates
  uint32_t epoch = 0;            // goes into every header of this session
  // What the first probe uses: kWriteImm or kSendAfterWrite.
  Notification notification = Notification::kWriteImm;
  // The most bytes that the executor's endpoint takes inside a message; 0: none.
  uint32_t eager_bytes = 0;
  std::vector<FunctionInfo> functions;  // what the session can call; an id is a position here
  DataAuth data_auth = DataAuth::kOff;  // the stronger of what both sides want
  DataKeys data_keys;                   // unless data_auth is kOff
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_MESSAGES_H_
