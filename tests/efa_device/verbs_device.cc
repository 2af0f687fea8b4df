// Devices, contexts, ports, protection domains.

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/efa_device/verbs_objects.h"

// The header's macros of these names lead to inline functions.
#undef ibv_query_port

namespace efa_device {
namespace {

// The cards that this process has open. Never destroyed: threads may run at exit.
struct OpenCards {
  std::mutex lock;
  std::vector<Card*> cards;
};

OpenCards& Cards() {
  static OpenCards* cards = new OpenCards;
  return *cards;
}

void BeforeFork() {
  Cards().lock.lock();
  for (Card* card : Cards().cards) card->lock().lock();
}

void AfterForkInParent() {
  for (Card* card : Cards().cards) card->lock().unlock();
  Cards().lock.unlock();
}

void AfterForkInChild() {
  for (Card* card : Cards().cards) {
    card->Disown();
    card->lock().unlock();
  }
  Cards().lock.unlock();
}

// A process that ends without closing its device leaves no files.
__attribute__((destructor)) void RemoveFilesAtExit() {
  std::lock_guard<std::mutex> guard(Cards().lock);
  for (Card* card : Cards().cards) {
    std::lock_guard<std::mutex> card_guard(card->lock());
    card->RemoveFiles();
  }
}

ibv_device* TheDevice() {
  static ibv_device* device = [] {
    auto* made = new ibv_device();
    made->node_type = IBV_NODE_UNSPECIFIED;
    made->transport_type = IBV_TRANSPORT_UNSPECIFIED;
    snprintf(made->name, sizeof(made->name), "efa_0");
    snprintf(made->dev_name, sizeof(made->dev_name), "uverbs0");
    const char* directory = getenv("INVOKER_EFA_DEVICE_DIR");
    const std::string sysfs = std::string(directory != nullptr ? directory : "") + "/sys";
    snprintf(made->dev_path, sizeof(made->dev_path), "%s/class/infiniband_verbs/uverbs0",
             sysfs.c_str());
    snprintf(made->ibdev_path, sizeof(made->ibdev_path), "%s/class/infiniband/efa_0",
             sysfs.c_str());
    // Where the provider looks for the driver of a device that it has been given.
    setenv("SYSFS_PATH", sysfs.c_str(), /*replace=*/1);
    return made;
  }();
  return device;
}

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t size) {
  if (port != 1) return EINVAL;
  ibv_port_attr all = {};
  all.state = IBV_PORT_ACTIVE;
  all.max_mtu = IBV_MTU_4096;
  all.active_mtu = IBV_MTU_4096;
  all.gid_tbl_len = 1;
  all.max_msg_sz = CardOf(context).attributes().mtu;
  all.pkey_tbl_len = 1;
  all.max_vl_num = 1;
  all.active_width = 2;   // four lanes
  all.active_speed = 32;  // 25 Gb/s
  all.phys_state = 5;     // link up
  all.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
  memset(attributes, 0, size);
  memcpy(attributes, &all, std::min(size, sizeof(all)));
  return 0;
}

}  // namespace
}  // namespace efa_device

using efa_device::Attributes;
using efa_device::Card;
using efa_device::CardOf;
using efa_device::Context;
using efa_device::From;
using efa_device::ProtectionDomain;

EFA_DEVICE_EXPORT ibv_device** ibv_get_device_list(int* count) {
  // The caller gets a list that ends with null, and frees it.
  auto** list = static_cast<ibv_device**>(calloc(2, sizeof(ibv_device*)));
  if (list != nullptr) list[0] = efa_device::TheDevice();
  if (count != nullptr) *count = list != nullptr ? 1 : 0;
  return list;
}

EFA_DEVICE_EXPORT void ibv_free_device_list(ibv_device** list) { free(list); }

EFA_DEVICE_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

EFA_DEVICE_EXPORT __be64 ibv_get_device_guid(ibv_device*) { return 0; }

EFA_DEVICE_EXPORT int ibv_get_device_index(ibv_device*) { return 0; }

EFA_DEVICE_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  static const int registered = pthread_atfork(
      efa_device::BeforeFork, efa_device::AfterForkInParent, efa_device::AfterForkInChild);
  if (registered != 0) {
    errno = registered;
    return nullptr;
  }
  std::unique_ptr<Card> card = Card::Open();
  if (card == nullptr) return nullptr;
  auto* context = new Context();
  context->verbs.sz = sizeof(verbs_context);
  context->verbs.query_port = efa_device::QueryPort;
  efa_device::SetCompletionOperations(&context->verbs);
  efa_device::SetQueuePairOperations(&context->verbs);
  ibv_context& verbs = context->verbs.context;
  verbs.device = device;
  verbs.cmd_fd = -1;
  verbs.async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);  // nothing happens asynchronously
  verbs.num_comp_vectors = 1;
  pthread_mutex_init(&verbs.mutex, nullptr);
  verbs.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context->card = std::move(card);
  std::lock_guard<std::mutex> guard(efa_device::Cards().lock);
  efa_device::Cards().cards.push_back(context->card.get());
  return &verbs;
}

EFA_DEVICE_EXPORT int ibv_close_device(ibv_context* verbs) {
  Context* context = From(verbs);
  {
    std::lock_guard<std::mutex> guard(efa_device::Cards().lock);
    auto& cards = efa_device::Cards().cards;
    cards.erase(std::remove(cards.begin(), cards.end(), context->card.get()), cards.end());
  }
  close(verbs->async_fd);
  pthread_mutex_destroy(&verbs->mutex);
  delete context;
  return 0;
}

EFA_DEVICE_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const Card& card = CardOf(context);
  const Attributes& from = card.attributes();
  *attributes = {};
  snprintf(attributes->fw_ver, sizeof(attributes->fw_ver), "0.0.0.0");
  attributes->vendor_id = from.vendor_id;
  attributes->vendor_part_id = from.part_id;
  attributes->hw_ver = 0xefa0;
  attributes->max_mr_size = UINT64_C(1) << 40;
  attributes->page_size_cap = 0xfffff000;
  attributes->max_qp = static_cast<int>(from.max_queue_pairs);
  attributes->max_qp_wr =
      static_cast<int>(std::min(from.max_send_requests, from.max_receive_requests));
  attributes->max_sge = std::min(from.max_send_sge, from.max_receive_sge);
  attributes->max_sge_rd = from.max_rdma_sge;
  attributes->max_cq = static_cast<int>(from.max_completion_queues);
  attributes->max_cqe = static_cast<int>(from.max_completion_entries);
  attributes->max_mr = static_cast<int>(from.max_memory_regions);
  attributes->max_pd = static_cast<int>(from.max_protection_domains);
  attributes->max_ah = static_cast<int>(from.max_address_handles);
  attributes->max_pkeys = 1;
  attributes->phys_port_cnt = 1;
  return 0;
}

EFA_DEVICE_EXPORT int efadv_query_device(ibv_context* context, efadv_device_attr* attributes,
                                         uint32_t size) {
  // The first version of the structure ended before the capabilities.
  if (size < offsetof(efadv_device_attr, device_caps)) return EINVAL;
  const Attributes& from = CardOf(context).attributes();
  efadv_device_attr all = {};
  all.max_sq_wr = from.max_send_requests;
  all.max_rq_wr = from.max_receive_requests;
  all.max_sq_sge = from.max_send_sge;
  all.max_rq_sge = from.max_receive_sge;
  all.inline_buf_size = from.max_inline;
  all.device_caps = from.caps;
  all.max_rdma_size = from.max_rdma_size;
  memset(attributes, 0, size);
  memcpy(attributes, &all, std::min<size_t>(size, sizeof(all)));
  return 0;
}

// For users compiled against old headers: they pass a structure without the last members.
EFA_DEVICE_EXPORT int ibv_query_port(ibv_context* context, uint8_t port,
                                     _compat_ibv_port_attr* attributes) {
  return efa_device::QueryPort(context, port, reinterpret_cast<ibv_port_attr*>(attributes),
                               offsetof(ibv_port_attr, port_cap_flags2));
}

EFA_DEVICE_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  memcpy(gid->raw, CardOf(context).gid().data(), sizeof(gid->raw));
  return 0;
}

EFA_DEVICE_EXPORT int ibv_query_pkey(ibv_context*, uint8_t port, int index, __be16* pkey) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = 0xffff;
  return 0;
}

EFA_DEVICE_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* domain = new ProtectionDomain();
  domain->verbs.context = context;
  return &domain->verbs;
}

EFA_DEVICE_EXPORT int ibv_dealloc_pd(ibv_pd* verbs) {
  ProtectionDomain* domain = From(verbs);
  if (domain->users > 0) return EBUSY;
  delete domain;
  return 0;
}

// Nothing here is hurt by a fork, as with the kernels since 5.13.
EFA_DEVICE_EXPORT int ibv_fork_init(void) { return 0; }

EFA_DEVICE_EXPORT ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
