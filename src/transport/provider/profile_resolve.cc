// What a row of the table asks libfabric for, and what it comes to on one fi_info: narrowed, never
// widened.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/transport/base/ring_message.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker::transport {
namespace {

// Every memory mode that MemoryRegion can serve.
constexpr int kServedMemoryModes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
                                   FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_RMA_EVENT;

bool IsIpFormat(uint32_t format) {
  return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

// Whether the libfabric that runs is `version` or later; 0: never.
bool Since(uint32_t version) { return version != 0 && fi_version() >= version; }

std::string VersionText(uint32_t version) {
  return absl::StrCat(FI_MAJOR(version), ".", FI_MINOR(version));
}

}  // namespace

std::string WhyNotInLibfabric(const ProfileRow& row) {
  const uint32_t runs = fi_version();
  const bool early = row.first_version != 0 && runs < row.first_version;
  const bool late = row.last_version != 0 && runs > row.last_version;
  if (!early && !late) return "";
  return absl::StrCat("libfabric ", VersionText(runs), " has no provider ", row.provider, ": it ",
                      early ? absl::StrCat("came with ", VersionText(row.first_version))
                            : absl::StrCat("ended with ", VersionText(row.last_version)));
}

bool ImmediatesKill(const ProfileRow& row) { return Since(row.immediates_kill_since); }

bool RefusalsUnseen(const ProfileRow& row) { return Since(row.refusals_unseen_since); }

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
  profile.immediates_kill = ImmediatesKill(row);
  profile.notification =
      immediate_bytes >= kTokenBytes && events_granted && !profile.immediates_kill
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
  profile.one_release_per_host = row.one_release_per_host;
  profile.transmit_depth = info.tx_attr->size;
  profile.receive_buffers = std::min(row.receive_buffers, info.rx_attr->size);
  profile.remote_reads = (info.caps & (FI_READ | FI_REMOTE_READ)) == (FI_READ | FI_REMOTE_READ);
  profile.may_have_atomics = (info.caps & FI_ATOMIC) != 0;
  profile.inject_bytes = info.tx_attr->inject_size;
  const bool writes_in_order =
      (info.tx_attr->msg_order & FI_ORDER_WAW) != 0 &&
      (info.rx_attr->msg_order & FI_ORDER_WAW) != 0 &&
      info.ep_attr->max_order_waw_size / kMostPieces >= profile.inject_bytes;
  profile.may_send_pieces = row.may_send_pieces && writes_in_order &&
                            profile.notification == Notification::kWriteImm &&
                            immediate_bytes >= sizeof(uint64_t) && profile.inject_bytes > 0;
  profile.injected_is_placed = row.injected_is_placed;
  profile.large_source_pages = row.large_source_pages;
  profile.file_scheme = row.file_scheme;
  profile.peers_share_locks = row.peers_share_locks;
  profile.peers_connect = row.peers_connect;
  profile.left_posts_are_clean = row.left_posts_are_clean_in == fi_version();
  profile.alias_own_process = row.alias_own_process;
  profile.faults_need_event_queue = row.faults_need_event_queue;
  profile.max_message_bytes = info.ep_attr->max_msg_size;
  const uint64_t largest = std::max<uint64_t>(profile.max_message_bytes, kRingHeaderBytes);
  profile.eager_bytes = std::min<uint64_t>(row.eager_bytes, largest - kRingHeaderBytes);
  profile.auto_rank = row.auto_rank;
  profile.evidence = row.evidence;
  return profile;
}

}  // namespace invoker::transport
