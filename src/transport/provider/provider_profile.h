// The one table of what providers do differently, and what Invoker does about it.
//
// A row states what is known of a provider before it is asked (docs/design/architecture.md says
// why, where it is not plain). Resolve() combines the row with the fi_info that fi_getinfo really
// returned, and may only narrow: a capability that the fi_info does not grant is dropped, none is
// added. A provider that has no row gets a conservative one. No other file in src/ names a
// provider.

#ifndef INVOKER_SRC_TRANSPORT_PROVIDER_PROVIDER_PROFILE_H_
#define INVOKER_SRC_TRANSPORT_PROVIDER_PROVIDER_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "invoker/notification.h"
#include "src/transport/base/libfabric.h"

namespace invoker::transport {

// When the send of a send-after-write may be posted.
enum class SendOrder : uint8_t {
  kPipelined,      // right behind the write: the fabric grants FI_ORDER_SAW
  kAfterDelivery,  // once the write has completed with FI_DELIVERY_COMPLETE
};

// Who chooses memory keys.
enum class KeyPolicy : uint8_t { kProvider, kRandom };

// What a remote address counts from.
enum class Addressing : uint8_t { kOffset, kVirtual };

// How a thread that has nothing to do learns that a completion has come.
enum class WaitMethod : uint8_t {
  kFd,       // FI_WAIT_FD and fi_trywait
  kSread,    // fi_cq_sread: the descriptor is missing or useless. The domain is opened with
             // FI_THREAD_SAFE, because others may drive the endpoint while one sleeps in it
  kBackoff,  // the provider has no usable wait object: sleep for growing, bounded intervals between
             // polls
};

// Where a row's claims have been held against a running fabric by the conformance suite.
enum class Evidence : uint8_t {
  kHost,            // the provider itself, between processes of one host
  kSoftRoce,        // the provider itself, over the kernel's software RDMA device
  kEmulatedDevice,  // the provider itself, on an emulated card
  kEmulation,       // an emulation of the contract as read from the provider's source, no hardware
  kNone,            // written from its manual and source
};

// An environment variable that a provider reads, set before libfabric starts unless the user has.
struct EnvironmentDefault {
  const char* name;
  const char* value;
  uint32_t version = 0;       // the only libfabric (FI_VERSION) that is to see it; 0: any
  bool without_rdma = false;  // only where the machine has no RDMA device
};

// One message goes in so many pieces at most: 16 full ones, and one more for its header.
inline constexpr size_t kMostPieces = 17;

// What is known of a provider in advance.
struct ProfileRow {
  absl::string_view provider;         // fi_fabric_attr.prov_name; empty in the conservative row
  absl::string_view unserved_fabric;  // fi_fabric_attr.name of an entry to pass over, or empty
  uint64_t caps;                      // fi_info.caps to ask for
  uint64_t message_order;             // tx and rx msg_order to ask for
  size_t cq_data_request;             // cq_data_size to ask for, where it must be asked for; else 0
  Notification notification;          // the strongest that may work; a probe must confirm kWriteImm
  SendOrder send_order;               // for send-after-write, if the order is granted
  size_t immediate_bytes;             // that a remote write carries
  size_t eager_bytes;                 // with send-after-write, payloads up to this go inside the
                                      // send; 0: none
  WaitMethod wait;
  bool address_is_ip;      // endpoints are addressed by IP: an interface or IP selects one
  bool close_needs_quiet;  // see Reactor::Close
  bool same_host_only;     // works between processes of one host only
  size_t receive_buffers;  // posted for the sends of send-after-write
  // Place in the order in which an automatic choice tries providers, 1 first; 0: only by name.
  uint32_t auto_rank;
  Evidence evidence;
  absl::Span<const EnvironmentDefault> environment;
  // To ask for. A provider that makes progress by itself may do so all the same.
  enum fi_progress data_progress = FI_PROGRESS_MANUAL;
  // A write with immediate of more than the provider injects may go in pieces that are injected,
  // where FI_ORDER_WAW is granted and the immediate has room to mark them. Up to which length that
  // is faster depends on the processors, so each session measures it (MethodTrial).
  bool may_send_pieces = false;
  // What has been injected is in the peer's hands when the call returns, so that nothing of it can
  // be outstanding or fail: what is short enough is injected, and has no completion to read.
  bool injected_is_placed = false;
  // A peer's kernel looks up the pages of what is written one by one, so that large pages pay.
  bool large_source_pages = false;
  bool wait_slows_polling = false;  // a queue with a wait object takes longer to poll
  // Each peer makes a connection, which the endpoint has to accept: that may stop for good while
  // older connections go on.
  bool peers_connect = false;
  bool same_user_only = false;  // works between processes of one user only
  // Processes of one host share memory, which each release of the provider lays out in its own way.
  bool one_release_per_host = false;
  // Calls of ours spin for locks in memory that peers share, and that one which is killed or
  // stopped in the middle of a call never lets go of: such calls are left (SpinEscape).
  bool peers_share_locks = false;
  // The libfabric (FI_VERSION) in which a post that wants such a lock holds nothing else, so that
  // the endpoint can be used when the post has been left; 0: none is known.
  uint32_t left_posts_are_clean_in = 0;
  // From this libfabric (FI_VERSION) on, a peer that disconnects in the middle of a write with
  // immediate ends our process, so that none is asked for; 0: there is no such fault.
  uint32_t immediates_kill_since = 0;
  // From this libfabric (FI_VERSION) on, a write or a read that its target refuses, such as one
  // with a wrong key, completes as if it had been done; 0: there is no such fault.
  uint32_t refusals_unseen_since = 0;
  // An endpoint must know those of its own process by another name than they have themselves: the
  // provider takes a short cut between them, which it still follows when one has closed, and which
  // may leave out where one finds what the other sent.
  bool alias_own_process = false;
  // A fault that the provider finds, such as a peer's message with a wrong key, ends the process,
  // unless the endpoint has an event queue that can be told.
  bool faults_need_event_queue = false;
  // Libfabric's start opens a device for the whole process, which a fork must not use: what it has
  // there is freed only when every process that shares the device has closed it.
  bool start_per_process = false;
  // An endpoint is a file in /dev/shm, and its address is this and the file's name, which may be
  // chosen by fi_setname; empty: it is not.
  absl::string_view file_scheme = "";
  // The first and the last libfabric (FI_VERSION) that has it; 0: none is known.
  uint32_t first_version = 0;
  uint32_t last_version = 0;
  absl::string_view absent_hint;  // for people: what a machine needs to have it
};

// A row, narrowed to one fi_info.
struct Profile {
  std::string provider;
  Notification notification = Notification::kSendAfterWrite;
  SendOrder send_order = SendOrder::kAfterDelivery;
  size_t immediate_bytes = 0;  // granted
  size_t eager_bytes = 0;
  KeyPolicy keys = KeyPolicy::kRandom;
  size_t key_bytes = 8;
  Addressing addressing = Addressing::kVirtual;
  bool local_registration = false;       // FI_MR_LOCAL: source buffers need a descriptor
  bool bind_region_to_endpoint = false;  // FI_MR_ENDPOINT
  bool bind_region_for_events = false;   // FI_MR_RMA_EVENT: a target region says so when enabled
  bool populate_regions = false;         // FI_MR_ALLOCATED: pages are there before registration
  WaitMethod wait = WaitMethod::kBackoff;
  bool wait_slows_polling = false;
  bool address_is_ip = false;
  bool same_host_only = false;
  bool one_release_per_host = false;  // the row's
  bool close_needs_quiet = false;
  bool remote_reads = false;      // FI_READ and FI_REMOTE_READ are granted
  bool may_have_atomics = false;  // FI_ATOMIC is granted; fi_query_atomic has the last word
  size_t transmit_depth = 0;      // operations that may be outstanding
  size_t receive_buffers = 0;
  size_t inject_bytes = 0;
  bool injected_is_placed = false;  // the row's
  bool may_send_pieces = false;     // everything that this takes is granted
  bool large_source_pages = false;  // the row's
  bool peers_share_locks = false;   // the row's
  absl::string_view file_scheme;    // the row's
  bool peers_connect = false;       // the row's
  bool left_posts_are_clean = false;
  bool immediates_kill = false;          // why write-with-immediate is not used: see ImmediatesKill
  bool alias_own_process = false;        // the row's
  bool faults_need_event_queue = false;  // the row's
  uint64_t max_message_bytes = 0;
  uint32_t auto_rank = 0;
  Evidence evidence = Evidence::kNone;
};

// The provider that Discover takes where none is named.
absl::string_view DefaultProvider();

// What stands for "whatever is best" where a user names a provider.
inline constexpr absl::string_view kAutoProvider = "auto";

// Every row but the conservative one.
absl::Span<const ProfileRow> Rows();

// The rows that an automatic choice may take, best first.
std::vector<const ProfileRow*> AutoRows();

// The row for `provider`, or the conservative one.
const ProfileRow& FindRow(absl::string_view provider);

// Empty, or why the libfabric that runs has no such provider, on whatever machine.
std::string WhyNotInLibfabric(const ProfileRow& row);

// Whether the libfabric that runs has the fault of `immediates_kill_since`.
bool ImmediatesKill(const ProfileRow& row);

// Whether the libfabric that runs has the fault of `refusals_unseen_since`.
bool RefusalsUnseen(const ProfileRow& row);

// What to ask fi_getinfo for. `provider` is copied.
InfoPtr MakeHints(const ProfileRow& row, absl::string_view provider);

// UNIMPLEMENTED where `info` demands something that Invoker cannot give (raw keys, a message
// prefix, an endpoint that is not RDM).
absl::StatusOr<Profile> Resolve(const ProfileRow& row, const fi_info& info);

// For people: "fd", "sread", "back-off".
absl::string_view WaitMethodName(WaitMethod wait);
// For people: "host", "soft-roce", "emulated-device", "emulation", "none".
absl::string_view EvidenceName(Evidence evidence);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_PROVIDER_PROVIDER_PROFILE_H_
