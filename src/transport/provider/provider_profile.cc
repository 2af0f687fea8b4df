#include "src/transport/provider/provider_profile.h"

#include <algorithm>

namespace invoker::transport {
namespace {

constexpr uint64_t kBasicCaps = FI_MSG | FI_RMA;
constexpr uint64_t kAtomicCaps = kBasicCaps | FI_ATOMIC;
constexpr uint64_t kSendAfterWriteOrder = FI_ORDER_SAW | FI_ORDER_SAS;

// How often ofi_rxm looks for connections, in microseconds. Its own 10 ms are what a session's
// first message waits for, several times; five in a millisecond cost a hot loop next to nothing.
constexpr EnvironmentDefault kRxmConnections = {"FI_OFI_RXM_CM_PROGRESS_INTERVAL", "200"};

constexpr EnvironmentDefault kVerbsRxmEnvironment[] = {kRxmConnections};

// Most of what opening an endpoint and its first message took was ofi_rxm's buffers: it zeroes 1024
// at a time, 17 MB of new pages, four times for receives and once for sends.
constexpr EnvironmentDefault kTcpRxmEnvironment[] = {
    kRxmConnections,
    // Receives posted for all connections, in place of 4096. Each is posted again as soon as its
    // message is taken; messages beyond them wait in their sockets. On verbs, for each connection,
    // it is what ofi_rxm does anyway.
    {"FI_OFI_RXM_MSG_RX_SIZE", "128"},
    // Receives that may be posted to ofi_rxm itself, in place of 2048: receive_buffers. It makes
    // room for so many, twice.
    {"FI_OFI_RXM_RX_SIZE", "256"},
    // The length of a buffer, in place of 16 KiB, and up to which length messages are sent without
    // asking, which both sides of a connection must agree on: left as it is. On tcp longer messages
    // than a buffer then go from and to the user's memory. On verbs they could not, and no other
    // libfabric has the second variable.
    {"FI_OFI_RXM_BUFFER_SIZE", "192", FI_VERSION(1, 17), /*without_rdma=*/true},
    {"FI_OFI_RXM_EAGER_LIMIT", "16384", FI_VERSION(1, 17), /*without_rdma=*/true},
};

// A peer that is removed loses its place in that shm to the next one, but goes on using it. That
// ends the process that removed it. Invoker has shm of its own within a host.
constexpr EnvironmentDefault kEfaEnvironment[] = {{"FI_EFA_ENABLE_SHM_TRANSFER", "0"}};

constexpr EnvironmentDefault kCxiEnvironment[] = {{"FI_CXI_ENABLE_WRITEDATA", "1"}};

// FI_RMA_EVENT is asked for only where a write with CQ data needs it; some providers refuse it.
// docs/design/libfabric.md says where each fact comes from. eager_bytes is where bench/notification
// found a whole message still cheaper than a write and a send, between two threads; 4096 where it
// could not be measured.
constexpr ProfileRow kRows[] = {
    {
        .provider = "shm",
        .unserved_fabric = "",
        .caps = kAtomicCaps,
        // FI_ORDER_WAW is what pieces of a message rely on. It takes away the fast path of plain
        // writes, which no notification takes: each is a write with an immediate or one that waits
        // for delivery.
        .message_order = FI_ORDER_SAS | FI_ORDER_WAW,
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kAfterDelivery,
        .immediate_bytes = 8,
        .eager_bytes = 4072,  // with its header, what is copied twice and not read by the peer
        .wait = WaitMethod::kBackoff,
        .address_is_ip = false,
        .close_needs_quiet = false,
        .same_host_only = true,
        .receive_buffers = 256,
        .auto_rank = 1,
        .evidence = Evidence::kHost,
        .environment = {},
        .may_send_pieces = true,
        .injected_is_placed = true,
        .large_source_pages = true,
        .same_user_only = true,  // its files have mode 0600, and a peer's memory is read by CMA
        .one_release_per_host = true,
        .peers_share_locks = true,  // an endpoint's queue's, or from libfabric 1.18 on its buffers'
        .left_posts_are_clean_in = FI_VERSION(1, 17),
        .refusals_unseen_since =
            FI_VERSION(2, 5),       // docs/design/libfabric.md, "By version of libfabric"
        .alias_own_process = true,  // tests/libfabric/faults/shm_two_endpoints.c
        .file_scheme = "fi_shm://",
        .absent_hint = "needs a writable /dev/shm",
    },
    {
        .provider = "verbs;ofi_rxm",
        .unserved_fabric = "",
        // This layer's atomics are messages too, and it does not grant them together with
        // FI_ORDER_SAW: asking for both finds nothing.
        .caps = kBasicCaps,
        .message_order = kSendAfterWriteOrder,
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kPipelined,
        .immediate_bytes = 4,  // none on iWARP, which then offers no CQ data
        .eager_bytes = 4096,
        .wait = WaitMethod::kFd,
        .address_is_ip = true,
        .close_needs_quiet = true,  // the same layer as on tcp
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 2,
        .evidence = Evidence::kSoftRoce,
        .environment = kVerbsRxmEnvironment,
        .peers_connect = true,
        .start_per_process = true,
        .absent_hint = "needs rdma-core, a device that ibv_devices lists and an IP address on it",
    },
    {
        .provider = "efa",
        .unserved_fabric = "efa-direct",  // makes demands of the target that a session cannot meet
        .caps = kAtomicCaps,
        .message_order = FI_ORDER_SAS,
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kAfterDelivery,
        .immediate_bytes = 8,  // 4 from libfabric 1.18 on
        .eager_bytes = 4096,
        .wait = WaitMethod::kBackoff,
        .address_is_ip = false,
        .close_needs_quiet = false,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 3,
        .evidence = Evidence::kEmulatedDevice,
        .environment = kEfaEnvironment,
        .one_release_per_host = true,  // shm may lie beneath it between processes of one host
        .faults_need_event_queue = true,
        .start_per_process = true,
        .absent_hint = "needs an EC2 instance with EFA and the libfabric of the EFA installer",
    },
    {
        .provider = "gni",
        .unserved_fabric = "",
        // Drops immediates in silence unless both sides ask for the event.
        .caps = kAtomicCaps | FI_RMA_EVENT,
        .message_order = FI_ORDER_SAS,
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kAfterDelivery,
        .immediate_bytes = 8,
        .eager_bytes = 4096,
        .wait = WaitMethod::kBackoff,
        .address_is_ip = false,
        .close_needs_quiet = false,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 4,
        .evidence = Evidence::kEmulation,
        .environment = {},
        .start_per_process = true,
        .last_version = FI_VERSION(1, 20),
        .absent_hint = "needs a Cray XC and a libfabric up to 1.20 that was built with it",
    },
    {
        .provider = "cxi",
        .unserved_fabric = "",
        .caps = kAtomicCaps | FI_RMA_EVENT,
        .message_order = FI_ORDER_SAS,
        .cq_data_request = 4,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kAfterDelivery,
        .immediate_bytes = 8,
        .eager_bytes = 4096,
        .wait = WaitMethod::kFd,
        .address_is_ip = false,
        .close_needs_quiet = false,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 5,
        .evidence = Evidence::kNone,
        .environment = kCxiEnvironment,
        .start_per_process = true,
        .absent_hint = "needs an HPE Slingshot card and the libfabric of its system",
    },
    {
        .provider = "tcp",  // reliable datagrams of its own from libfabric 1.18 on
        .unserved_fabric = "",
        .caps = kBasicCaps,
        .message_order = kSendAfterWriteOrder,
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kPipelined,
        .immediate_bytes = 8,
        .eager_bytes = 4096,
        .wait = WaitMethod::kFd,
        .address_is_ip = true,
        .close_needs_quiet = true,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 6,
        .evidence = Evidence::kHost,
        .environment = {},
        .peers_connect = true,
        .first_version = FI_VERSION(1, 18),
        .absent_hint = "needs libfabric 1.18 or later, and a network interface that is up",
    },
    {
        .provider = "tcp;ofi_rxm",
        .unserved_fabric = "",
        .caps = kBasicCaps,
        .message_order = kSendAfterWriteOrder,
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kPipelined,
        .immediate_bytes = 8,
        .eager_bytes = 8192,
        .wait = WaitMethod::kFd,
        .address_is_ip = true,
        // libfabric 1.17 follows a null pointer if the endpoint closes while a peer's write is half
        // received.
        .close_needs_quiet = true,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 7,
        .evidence = Evidence::kHost,
        .environment = kTcpRxmEnvironment,
        // Two to three microseconds of a round trip: tcp polls by epoll then, and not by poll.
        .wait_slows_polling = true,
        .peers_connect = true,
        .immediates_kill_since = FI_VERSION(1, 18),  // tests/libfabric/faults/rxm_half_a_write.c
        .absent_hint = "needs a network interface that is up",
    },
    {
        .provider = "net",  // what became "tcp" in libfabric 1.18
        .unserved_fabric = "",
        .caps = kBasicCaps,
        .message_order = kSendAfterWriteOrder,
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kPipelined,
        .immediate_bytes = 8,
        .eager_bytes = 16384,
        .wait = WaitMethod::kSread,  // its descriptor spins: fi_trywait always allows the sleep
        .address_is_ip = true,
        .close_needs_quiet = true,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 0,
        .evidence = Evidence::kHost,
        .environment = {},
        .peers_connect = true,
        .first_version = FI_VERSION(1, 16),
        .last_version = FI_VERSION(1, 17),
        .absent_hint = "needs libfabric 1.16 or 1.17, and a network interface that is up",
    },
    {
        .provider = "sockets",
        .unserved_fabric = "",
        .caps = kAtomicCaps,
        .message_order = kSendAfterWriteOrder,
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kPipelined,
        .immediate_bytes = 8,
        .eager_bytes = 4096,
        .wait = WaitMethod::kFd,
        .address_is_ip = true,
        .close_needs_quiet = false,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 0,
        .evidence = Evidence::kHost,
        .environment = {},
        // Made to wait for polls, it has no descriptor, and a write to it never arrives.
        .data_progress = FI_PROGRESS_AUTO,
        .peers_connect = true,
        .absent_hint = "needs a network interface that is up",
    },
    {
        .provider = "udp;ofi_rxd",
        .unserved_fabric = "",
        .caps = kAtomicCaps,
        .message_order = kSendAfterWriteOrder,
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kPipelined,
        .immediate_bytes = 8,
        .eager_bytes = 4096,
        .wait = WaitMethod::kSread,
        .address_is_ip = true,
        .close_needs_quiet = false,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 0,
        .evidence = Evidence::kHost,
        .environment = {},
        .absent_hint = "needs a network interface that is up",
    },
    {
        .provider = "psm3",
        .unserved_fabric = "",
        .caps = kAtomicCaps,
        .message_order = FI_ORDER_SAS,
        .cq_data_request = 4,  // none unless asked for
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kAfterDelivery,
        .immediate_bytes = 8,
        .eager_bytes = 4096,
        .wait = WaitMethod::kBackoff,
        .address_is_ip = false,
        .close_needs_quiet = false,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 0,
        .evidence = Evidence::kNone,
        .environment = {},
        .start_per_process = true,
        .absent_hint = "needs a card for it and a libfabric built with it",
    },
    {
        .provider = "psm2",
        .unserved_fabric = "",
        .caps = kAtomicCaps,
        .message_order = FI_ORDER_SAS,
        .cq_data_request = 4,  // none unless asked for
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kAfterDelivery,
        .immediate_bytes = 8,
        .eager_bytes = 4096,
        .wait = WaitMethod::kBackoff,
        .address_is_ip = false,
        .close_needs_quiet = false,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 0,
        .evidence = Evidence::kNone,
        .environment = {},
        .start_per_process = true,
        .absent_hint = "needs an Omni-Path card (driver hfi1, package libpsm2-2)",
    },
    {
        .provider = "opx",
        .unserved_fabric = "",
        .caps = kAtomicCaps,
        .message_order = 0,  // promises no order but that of atomics
        .cq_data_request = 0,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kAfterDelivery,
        .immediate_bytes = 4,
        .eager_bytes = 4096,
        .wait = WaitMethod::kBackoff,
        .address_is_ip = false,
        .close_needs_quiet = false,
        .same_host_only = false,
        .receive_buffers = 256,
        .auto_rank = 0,
        .evidence = Evidence::kNone,
        .environment = {},
        .start_per_process = true,
        .absent_hint = "needs an Omni-Path card (driver hfi1) and a libfabric built with it",
    },
};

constexpr absl::string_view kDefaultProvider = "tcp;ofi_rxm";

// Claims as little as can work: no order between a write and a send, no wait object, nothing of
// another release on the same host. A write with CQ data is still tried, because the probe at
// session open finds out whether it arrives.
constexpr ProfileRow kConservativeRow = {
    .provider = "",
    .unserved_fabric = "",
    .caps = kBasicCaps,
    .message_order = 0,
    .cq_data_request = 0,
    .notification = Notification::kWriteImm,
    .send_order = SendOrder::kAfterDelivery,
    .immediate_bytes = 4,
    .eager_bytes = 0,
    .wait = WaitMethod::kBackoff,
    .address_is_ip = false,
    .close_needs_quiet = false,
    .same_host_only = false,
    .receive_buffers = 128,
    .auto_rank = 0,
    .evidence = Evidence::kNone,
    .environment = {},
    .one_release_per_host = true,  // it may share memory, as shm does
    .start_per_process = true,
    .absent_hint = "unknown: `fi_info -l` lists what this libfabric was built with",
};

}  // namespace

absl::string_view DefaultProvider() { return kDefaultProvider; }

absl::Span<const ProfileRow> Rows() { return kRows; }

std::vector<const ProfileRow*> AutoRows() {
  std::vector<const ProfileRow*> rows;
  for (const ProfileRow& row : kRows) {
    if (row.auto_rank > 0) rows.push_back(&row);
  }
  std::sort(rows.begin(), rows.end(), [](const ProfileRow* left, const ProfileRow* right) {
    return left->auto_rank < right->auto_rank;
  });
  return rows;
}

const ProfileRow& FindRow(absl::string_view provider) {
  for (const ProfileRow& row : kRows) {
    if (row.provider == provider) return row;
  }
  return kConservativeRow;
}

}  // namespace invoker::transport
