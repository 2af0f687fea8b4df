#include "src/transport/provider_profile.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/transport/ring_message.h"

namespace invoker::transport {
namespace {

constexpr uint64_t kBasicCaps = FI_MSG | FI_RMA;
constexpr uint64_t kAtomicCaps = kBasicCaps | FI_ATOMIC;
constexpr uint64_t kSendAfterWriteOrder = FI_ORDER_SAW | FI_ORDER_SAS;

// How often ofi_rxm looks for connections, in microseconds. Its own 10 ms are what a session's
// first message waits for, twice; once in a millisecond, one look costs a hot loop next to nothing.
constexpr EnvironmentDefault kRxmConnections = {"FI_OFI_RXM_CM_PROGRESS_INTERVAL", "1000"};

// FI_RMA_EVENT is asked for only where a write with CQ data needs it; some providers refuse it.
// docs/providers.md says where each fact comes from. eager_bytes is where bench/notification found
// a whole message still cheaper than a write and a send, between two threads; 4096 where it could
// not be measured.
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
        .split_bytes = 8256,  // 8 KiB and a header; more gains little, and loses between far cores
        .injected_is_placed = true,
        .large_source_pages = true,
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
        .environment = kRxmConnections,
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
        .evidence = Evidence::kEmulation,
        .environment = {},
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
        .environment = {"FI_CXI_ENABLE_WRITEDATA", "1"},
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
        .evidence = Evidence::kNone,
        .environment = {},
        .absent_hint = "needs libfabric 1.18 or later",
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
        .environment = kRxmConnections,
        // Two to three microseconds of a round trip: tcp polls by epoll then, and not by poll.
        .wait_slows_polling = true,
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
        .absent_hint = "needs libfabric 1.16 or 1.17",
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
        .absent_hint = "needs an Omni-Path card (driver hfi1) and a libfabric built with it",
    },
};

constexpr absl::string_view kDefaultProvider = "tcp;ofi_rxm";

// Claims as little as can work: no order between a write and a send, no wait object. A write with
// CQ data is still tried, because the probe at session open finds out whether it arrives.
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
    .absent_hint = "unknown: `fi_info -l` lists what this libfabric was built with",
};

// Every memory mode that MemoryRegion can serve.
constexpr int kServedMemoryModes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
                                   FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_RMA_EVENT;

bool IsIpFormat(uint32_t format) {
  return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

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

InfoPtr MakeHints(const ProfileRow& row, absl::string_view provider) {
  InfoPtr hints(fi_allocinfo());
  if (hints == nullptr) return hints;
  hints->caps = row.caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = kServedMemoryModes;
  hints->domain_attr->threading =
      row.wait == WaitMethod::kSread ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
  hints->domain_attr->cq_data_size = row.cq_data_request;
  hints->domain_attr->data_progress = row.data_progress;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->tx_attr->msg_order = row.message_order;
  hints->rx_attr->msg_order = row.message_order;
  if (!provider.empty()) {
    hints->fabric_attr->prov_name = strndup(provider.data(), provider.size());
  }
  return hints;
}

absl::StatusOr<Profile> Resolve(const ProfileRow& row, const fi_info& info) {
  const std::string provider = info.fabric_attr->prov_name;
  const fi_domain_attr& domain = *info.domain_attr;
  if (info.ep_attr->type != FI_EP_RDM) {
    return absl::UnimplementedError(
        absl::StrCat("provider ", provider, " offers no reliable datagram endpoint (FI_EP_RDM)"));
  }
  if ((domain.mr_mode & FI_MR_RAW) != 0) {
    return absl::UnimplementedError(absl::StrCat(
        "provider ", provider,
        " demands raw memory keys (FI_MR_RAW: keys that do not fit in 64 bits and have "
        "to be mapped at each peer); Invoker exchanges 64-bit keys only"));
  }
  if ((domain.mr_mode & ~kServedMemoryModes) != 0) {
    return absl::UnimplementedError(
        absl::StrCat("provider ", provider,
                     " demands a memory registration mode that Invoker does not serve: mr_mode 0x",
                     absl::Hex(domain.mr_mode), ", served 0x", absl::Hex(kServedMemoryModes)));
  }
  if ((info.mode & ~(FI_CONTEXT | FI_CONTEXT2)) != 0) {
    return absl::UnimplementedError(absl::StrCat("provider ", provider, " demands mode 0x",
                                                 absl::Hex(info.mode),
                                                 "; Invoker serves FI_CONTEXT and FI_CONTEXT2"));
  }
  Profile profile;
  profile.provider = provider;
  const size_t immediate_bytes = std::min(row.immediate_bytes, domain.cq_data_size);
  const bool events_granted = (row.caps & FI_RMA_EVENT & ~info.caps) == 0;
  profile.immediate_bytes = immediate_bytes;
  profile.notification = immediate_bytes >= kTokenBytes && events_granted
                             ? row.notification
                             : Notification::kSendAfterWrite;
  const bool ordered = (info.tx_attr->msg_order & FI_ORDER_SAW) != 0 &&
                       (info.rx_attr->msg_order & FI_ORDER_SAW) != 0;
  profile.send_order = ordered ? row.send_order : SendOrder::kAfterDelivery;
  profile.keys = (domain.mr_mode & FI_MR_PROV_KEY) != 0 ? KeyPolicy::kProvider : KeyPolicy::kRandom;
  profile.key_bytes = std::min<size_t>(domain.mr_key_size == 0 ? 8 : domain.mr_key_size, 8);
  profile.addressing =
      (domain.mr_mode & FI_MR_VIRT_ADDR) != 0 ? Addressing::kVirtual : Addressing::kOffset;
  profile.local_registration = (domain.mr_mode & FI_MR_LOCAL) != 0;
  profile.bind_region_to_endpoint = (domain.mr_mode & FI_MR_ENDPOINT) != 0;
  // Without the capability a region has no events to be told of.
  profile.bind_region_for_events =
      (domain.mr_mode & FI_MR_RMA_EVENT) != 0 && (info.caps & FI_RMA_EVENT) != 0;
  profile.populate_regions = (domain.mr_mode & FI_MR_ALLOCATED) != 0;
  // To sleep in the queue while another thread drives takes a domain that is safe for threads.
  const bool may_sleep_in_queue = domain.threading == FI_THREAD_SAFE;
  profile.wait =
      row.wait == WaitMethod::kSread && !may_sleep_in_queue ? WaitMethod::kBackoff : row.wait;
  profile.wait_slows_polling = row.wait_slows_polling;
  profile.address_is_ip = row.address_is_ip || IsIpFormat(info.addr_format);
  profile.close_needs_quiet = row.close_needs_quiet;
  profile.same_host_only = row.same_host_only;
  profile.transmit_depth = info.tx_attr->size;
  profile.receive_buffers = std::min(row.receive_buffers, info.rx_attr->size);
  profile.may_have_atomics = (info.caps & FI_ATOMIC) != 0;
  profile.inject_bytes = info.tx_attr->inject_size;
  const bool writes_in_order = (info.tx_attr->msg_order & FI_ORDER_WAW) != 0 &&
                               (info.rx_attr->msg_order & FI_ORDER_WAW) != 0 &&
                               info.ep_attr->max_order_waw_size >= row.split_bytes;
  const bool may_split = profile.notification == Notification::kWriteImm && writes_in_order &&
                         immediate_bytes >= sizeof(uint64_t) && profile.inject_bytes > 0;
  profile.split_bytes = may_split && row.split_bytes > profile.inject_bytes ? row.split_bytes : 0;
  profile.injected_is_placed = row.injected_is_placed;
  profile.large_source_pages = row.large_source_pages;
  profile.max_message_bytes = info.ep_attr->max_msg_size;
  const uint64_t largest = std::max<uint64_t>(profile.max_message_bytes, kRingHeaderBytes);
  profile.eager_bytes = std::min<uint64_t>(row.eager_bytes, largest - kRingHeaderBytes);
  profile.auto_rank = row.auto_rank;
  profile.evidence = row.evidence;
  return profile;
}

}  // namespace invoker::transport
