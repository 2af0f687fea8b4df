#include "tests/contract_providers/core/info.h"

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "tests/contract_providers/core/address.h"
#include "tests/contract_providers/core/config.h"
#include "tests/contract_providers/core/inner.h"

namespace contract {
namespace {

constexpr uint64_t kRmaDirections = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kMessageDirections = FI_SEND | FI_RECV;
constexpr int kBasicModes = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
// FI_MR_BASIC, which 2.x headers do not name any more.
constexpr int kOldBasic = 1;

using Info = std::unique_ptr<fi_info, InfoFreer>;

// What mr_mode is told, -1 for a refusal.
int MemoryMode(const Contract& contract, const fi_info* hints) {
  const int told =
      kBasicModes | (contract.memory_rule == MemoryRule::kBasicAndLocal ? FI_MR_LOCAL : 0);
  if (hints == nullptr || hints->domain_attr == nullptr) return told;
  const int asked = hints->domain_attr->mr_mode;
  if (asked == kOldBasic) {
    return contract.memory_rule == MemoryRule::kBasicAndLocal ? -1 : kBasicModes;
  }
  if (contract.memory_rule == MemoryRule::kBasicElseMmuNotify) {
    // gnix_fabric.c, 1.17.0: MMU_NOTIFY is demanded unless BASIC or ALLOCATED is offered; then all
    // three basic bits give the basic mode, and anything less gives the scalable one.
    if ((asked & FI_MR_ALLOCATED) == 0 && (asked & FI_MR_MMU_NOTIFY) == 0) return -1;
    if ((asked & kBasicModes) == kBasicModes) return asked & (kBasicModes | FI_MR_LOCAL);
    return asked & (FI_MR_MMU_NOTIFY | FI_MR_LOCAL);
  }
  // ofi_cap_mr_mode: who is no target of RMA or atomics has nothing to register for peers.
  const bool is_target = hints->caps == 0 || (hints->caps & (FI_RMA | FI_ATOMIC)) != 0;
  const int demanded = is_target ? told : told & FI_MR_LOCAL;
  if ((asked & demanded) != demanded) return -1;
  return demanded | (asked & FI_MR_LOCAL);
}

// What caps are told.
uint64_t Caps(const Contract& contract, const fi_info* hints) {
  if (hints == nullptr || hints->caps == 0) return contract.caps | contract.caps_silent;
  uint64_t caps = hints->caps | contract.caps_silent;
  if ((caps & (FI_MSG | FI_TAGGED)) != 0 && (caps & kMessageDirections) == 0) {
    caps |= kMessageDirections;
  }
  if ((caps & (FI_RMA | FI_ATOMIC)) != 0 && (caps & kRmaDirections) == 0) caps |= kRmaDirections;
  return caps;
}

bool OrderRefused(const Contract& contract, uint64_t asked) {
  return contract.order_rule != OrderRule::kIgnoreHints && (asked & ~contract.message_order) != 0;
}

bool Refused(const Contract& contract, const char* node, uint64_t flags, const fi_info* hints) {
  if (contract.family == AddressFamily::kEfa && node != nullptr) {
    // A node is a GID in its IPv6 form (efa_str_to_ep_addr); as FI_SOURCE it must be the device's.
    uint8_t gid[16];
    if (inet_pton(AF_INET6, node, gid) != 1) return true;
    if ((flags & FI_SOURCE) != 0 && memcmp(gid, DeviceAddress(contract, 0).data(), 16) != 0) {
      return true;
    }
  }
  if (hints == nullptr) return contract.mode_required != 0;
  if ((hints->caps & ~(contract.caps | contract.caps_silent)) != 0) return true;
  if ((hints->mode & contract.mode_required) != contract.mode_required) return true;
  if (hints->addr_format != FI_FORMAT_UNSPEC && hints->addr_format != contract.address_format) {
    return true;
  }
  if (hints->dest_addr != nullptr && hints->dest_addrlen != contract.address_bytes) return true;
  if (hints->src_addr != nullptr && hints->src_addrlen != contract.address_bytes) return true;
  if (const fi_ep_attr* ep = hints->ep_attr; ep != nullptr) {
    if (ep->type != FI_EP_UNSPEC && ep->type != FI_EP_RDM) return true;
    if (ep->protocol != FI_PROTO_UNSPEC && ep->protocol != contract.protocol) return true;
    const uint64_t most =
        (hints->caps & FI_RMA) != 0 && contract.max_rma_bytes > contract.max_message_bytes
            ? contract.max_rma_bytes
            : contract.max_message_bytes;
    if (ep->max_msg_size > most) return true;
  }
  if (const fi_fabric_attr* fabric = hints->fabric_attr; fabric != nullptr) {
    if (fabric->name != nullptr && strcmp(fabric->name, contract.fabric_name) != 0) return true;
  }
  if (const fi_domain_attr* domain = hints->domain_attr; domain != nullptr) {
    if (domain->name != nullptr && strcmp(domain->name, contract.domain_name) != 0) return true;
    if (domain->cq_data_size > contract.cq_data_bytes) return true;
    if ((domain->caps & ~contract.domain_caps) != 0) return true;
    if (domain->mr_key_size > contract.key_bytes) return true;
  }
  if (const fi_tx_attr* tx = hints->tx_attr; tx != nullptr) {
    if ((tx->op_flags & ~contract.tx_op_flags) != 0) return true;
    if (OrderRefused(contract, tx->msg_order)) return true;
    if (tx->inject_size > contract.inject_bytes || tx->size > contract.tx_size) return true;
    if (tx->iov_limit > contract.iov_limit || tx->rma_iov_limit > contract.rma_iov_limit) {
      return true;
    }
  }
  if (const fi_rx_attr* rx = hints->rx_attr; rx != nullptr) {
    if ((rx->op_flags & ~contract.rx_op_flags) != 0) return true;
    if (OrderRefused(contract, rx->msg_order)) return true;
    if (rx->size > contract.rx_size || rx->iov_limit > contract.iov_limit) return true;
  }
  return MemoryMode(contract, hints) < 0;
}

enum fi_progress Progress(const Contract& contract, const fi_info* hints) {
  const bool has_domain = hints != nullptr && hints->domain_attr != nullptr;
  switch (contract.progress_rule) {
    case ProgressRule::kAuto:
      return FI_PROGRESS_AUTO;
    case ProgressRule::kManual:
      return FI_PROGRESS_MANUAL;
    case ProgressRule::kManualIfRmaAsked:
      return hints != nullptr && (hints->caps & FI_RMA) != 0 ? FI_PROGRESS_MANUAL
                                                             : FI_PROGRESS_AUTO;
    case ProgressRule::kAsAsked:
      break;
  }
  return has_domain && hints->domain_attr->data_progress != FI_PROGRESS_UNSPEC
             ? hints->domain_attr->data_progress
             : FI_PROGRESS_AUTO;
}

uint64_t Order(const Contract& contract, uint64_t asked) {
  return contract.order_rule == OrderRule::kMaskByHints ? contract.message_order & asked
                                                        : contract.message_order;
}

void FillDomain(const Contract& contract, const fi_info* hints, fi_domain_attr* domain) {
  domain->name = strdup(contract.domain_name);
  domain->threading = contract.threading;
  // Both fields, which are one in 2.x: what moves the data is what matters to a caller.
  domain->control_progress = Progress(contract, hints);
  domain->data_progress = Progress(contract, hints);
  domain->resource_mgmt = FI_RM_ENABLED;
  domain->av_type = FI_AV_TABLE;
  domain->mr_mode = MemoryMode(contract, hints);
  domain->mr_key_size = contract.key_bytes;
  domain->cq_data_size = contract.cq_data_bytes;
  domain->cq_cnt = 1024;
  domain->ep_cnt = 1024;
  domain->tx_ctx_cnt = 1;
  domain->rx_ctx_cnt = 1;
  domain->max_ep_tx_ctx = 1;
  domain->max_ep_rx_ctx = 1;
  domain->mr_iov_limit = 1;
  domain->mr_cnt = 65535;
  domain->caps = contract.domain_caps;
  if (hints != nullptr && hints->domain_attr != nullptr &&
      hints->domain_attr->threading != FI_THREAD_UNSPEC) {
    domain->threading = hints->domain_attr->threading;
  }
}

Info Build(const Contract& contract, const fi_info* hints, uint32_t ipv4) {
  Info info(fi_allocinfo());
  if (info == nullptr) return info;
  info->caps = Caps(contract, hints);
  info->mode = contract.mode_required;
  info->addr_format = contract.address_format;
  const std::string source = DeviceAddress(contract, ipv4);
  info->src_addr = malloc(source.size());
  memcpy(info->src_addr, source.data(), source.size());
  info->src_addrlen = source.size();
  if (hints != nullptr && hints->dest_addr != nullptr) {
    info->dest_addr = malloc(hints->dest_addrlen);
    memcpy(info->dest_addr, hints->dest_addr, hints->dest_addrlen);
    info->dest_addrlen = hints->dest_addrlen;
  }
  info->fabric_attr->name = strdup(contract.fabric_name);
  FillDomain(contract, hints, info->domain_attr);

  const fi_tx_attr* asked_tx = hints != nullptr ? hints->tx_attr : nullptr;
  const fi_rx_attr* asked_rx = hints != nullptr ? hints->rx_attr : nullptr;
  info->ep_attr->type = FI_EP_RDM;
  info->ep_attr->protocol = contract.protocol;
  info->ep_attr->protocol_version = contract.protocol_version;
  info->ep_attr->max_msg_size =
      (info->caps & FI_RMA) != 0 && contract.max_rma_bytes > contract.max_message_bytes
          ? contract.max_rma_bytes
          : contract.max_message_bytes;
  info->ep_attr->tx_ctx_cnt = 1;
  info->ep_attr->rx_ctx_cnt = 1;
  info->tx_attr->caps = info->caps;
  info->tx_attr->mode = info->mode;
  info->tx_attr->op_flags = asked_tx != nullptr ? asked_tx->op_flags : 0;
  info->tx_attr->msg_order =
      asked_tx != nullptr ? Order(contract, asked_tx->msg_order) : contract.message_order;
  info->tx_attr->inject_size = contract.inject_bytes;
  info->tx_attr->size =
      asked_tx != nullptr && asked_tx->size > 0 ? asked_tx->size : contract.tx_size;
  info->tx_attr->iov_limit = contract.iov_limit;
  info->tx_attr->rma_iov_limit = contract.rma_iov_limit;
  info->rx_attr->caps = info->caps;
  info->rx_attr->mode = info->mode;
  info->rx_attr->op_flags = asked_rx != nullptr ? asked_rx->op_flags : 0;
  info->rx_attr->msg_order =
      asked_rx != nullptr ? Order(contract, asked_rx->msg_order) : contract.message_order;
  info->rx_attr->size =
      asked_rx != nullptr && asked_rx->size > 0 ? asked_rx->size : contract.rx_size;
  info->rx_attr->iov_limit = contract.iov_limit;
  return info;
}

}  // namespace

int GetInfo(const ProviderDescription& provider, uint32_t version, const char* node,
            const char* service, uint64_t flags, const fi_info* hints, fi_info** result) {
  (void)version;
  (void)service;
  *result = nullptr;
  Config config;
  if (!Config::FromEnvironment(&config)) return -FI_ENODATA;
  uint32_t ipv4 = 0;
  if (config.inner_provider != "shm") inet_pton(AF_INET, config.inner_node.c_str(), &ipv4);
  fi_info** tail = result;
  for (const Contract* contract : provider.contracts()) {
    if (Refused(*contract, node, flags, hints)) continue;
    *tail = Build(*contract, hints, ipv4).release();
    if (*tail == nullptr) {
      fi_freeinfo(*result);
      *result = nullptr;
      return -FI_ENOMEM;
    }
    tail = &(*tail)->next;
  }
  return *result == nullptr ? -FI_ENODATA : 0;
}

}  // namespace contract
