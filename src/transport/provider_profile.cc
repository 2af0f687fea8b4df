#include "src/transport/provider_profile.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace invoker::transport {
namespace {

constexpr uint64_t kBasicCaps = FI_MSG | FI_RMA;
constexpr uint64_t kSendAfterWriteOrder = FI_ORDER_SAW | FI_ORDER_SAS;

// The first row is the default provider. FI_RMA_EVENT is asked for nowhere here: a write with CQ
// data needs it on none of these, and some refuse it.
constexpr ProfileRow kRows[] = {
    {
        .provider = "tcp;ofi_rxm",
        .caps = kBasicCaps,
        .message_order = kSendAfterWriteOrder,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kPipelined,
        .immediate_bytes = 8,
        .wait = WaitMethod::kFd,
        .address_is_ip = true,
        // libfabric 1.17 follows a null pointer if the endpoint closes while a peer's write is half
        // received.
        .close_needs_quiet = true,
        .same_host_only = false,
        .receive_buffers = 256,
    },
    {
        .provider = "shm",
        .caps = kBasicCaps,
        // Not FI_ORDER_SAW, though it would be granted: it takes away the fast path of every write,
        // and costs more than a delivery-complete write does.
        .message_order = FI_ORDER_SAS,
        .notification = Notification::kWriteImm,
        .send_order = SendOrder::kAfterDelivery,
        .immediate_bytes = 8,
        .wait = WaitMethod::kBackoff,
        .address_is_ip = false,
        .close_needs_quiet = false,
        .same_host_only = true,
        .receive_buffers = 256,
    },
};

// Claims as little as can work: no order between a write and a send, no wait object. A write with
// CQ data is still tried, because the probe at session open finds out whether it arrives.
constexpr ProfileRow kConservativeRow = {
    .provider = "",
    .caps = kBasicCaps,
    .message_order = 0,
    .notification = Notification::kWriteImm,
    .send_order = SendOrder::kAfterDelivery,
    .immediate_bytes = 4,
    .wait = WaitMethod::kBackoff,
    .address_is_ip = false,
    .close_needs_quiet = false,
    .same_host_only = false,
    .receive_buffers = 128,
};

// Our token is 32 bits wide (docs/wire_format.md).
constexpr size_t kTokenBytes = 4;

// Every memory mode that MemoryRegion can serve.
constexpr int kServedMemoryModes =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

bool IsIpFormat(uint32_t format) {
  return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

}  // namespace

absl::string_view DefaultProvider() { return kRows[0].provider; }

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
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
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
  profile.notification =
      immediate_bytes >= kTokenBytes ? row.notification : Notification::kSendAfterWrite;
  const bool ordered = (info.tx_attr->msg_order & FI_ORDER_SAW) != 0 &&
                       (info.rx_attr->msg_order & FI_ORDER_SAW) != 0;
  profile.send_order = ordered ? row.send_order : SendOrder::kAfterDelivery;
  profile.keys = (domain.mr_mode & FI_MR_PROV_KEY) != 0 ? KeyPolicy::kProvider : KeyPolicy::kRandom;
  profile.key_bytes = std::min<size_t>(domain.mr_key_size == 0 ? 8 : domain.mr_key_size, 8);
  profile.addressing =
      (domain.mr_mode & FI_MR_VIRT_ADDR) != 0 ? Addressing::kVirtual : Addressing::kOffset;
  profile.local_registration = (domain.mr_mode & FI_MR_LOCAL) != 0;
  profile.bind_region_to_endpoint = (domain.mr_mode & FI_MR_ENDPOINT) != 0;
  profile.wait = row.wait;
  profile.address_is_ip = row.address_is_ip || IsIpFormat(info.addr_format);
  profile.close_needs_quiet = row.close_needs_quiet;
  profile.same_host_only = row.same_host_only;
  profile.transmit_depth = info.tx_attr->size;
  profile.receive_buffers = std::min(row.receive_buffers, info.rx_attr->size);
  profile.max_message_bytes = info.ep_attr->max_msg_size;
  return profile;
}

}  // namespace invoker::transport
