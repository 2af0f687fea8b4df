#include "tests/contract_providers/core/inner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

namespace contract {
namespace {

constexpr size_t kReceives = 128;
constexpr size_t kSends = 128;

// FI_PROVIDER hides every provider that it does not name, the inner one too. libfabric's own
// layered providers see the hidden ones with this flag (OFI_GETINFO_HIDDEN of include/ofi.h in
// 1.17.0 and 2.6.0).
constexpr uint64_t kShowHidden = 1ULL << 60;

constexpr int kNameAttempts = 8;

// Within a process shm reaches a peer's region through the peer's own mapping, and follows it after
// the peer has closed (libfabric 1.17.0, smr_map_to_region). So a sender holds this, and looks
// whether the peer is gone.
struct Gone {
  std::shared_mutex lock;
  std::unordered_set<uint64_t> keys;
};

Gone& GonePeers() {
  static Gone* const gone = new Gone;
  return *gone;
}

uint64_t KeyOf(const Place& place) { return uint64_t{place.nonce} << 32 | place.number; }

}  // namespace

int InnerDomain::Open(const Config& config, std::unique_ptr<InnerDomain>* result) {
  std::unique_ptr<fi_info, InfoFreer> hints(fi_allocinfo());
  auto inner = std::make_unique<InnerDomain>();
  inner->is_ip = config.inner_provider != "shm";
  hints->caps = FI_MSG;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  // Messages of one sender arrive in the order in which they were sent; the core builds on it.
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->fabric_attr->prov_name = strdup(config.inner_provider.c_str());
  const char* node = inner->is_ip ? config.inner_node.c_str() : nullptr;
  fi_info* info = nullptr;
  const uint32_t version = FI_VERSION(1, 17);
  const uint64_t flags = inner->is_ip ? FI_SOURCE : 0;
  int code = fi_getinfo(version, node, nullptr, flags, hints.get(), &info);
  if (code == -FI_ENODATA) {
    code = fi_getinfo(version, node, nullptr, flags | kShowHidden, hints.get(), &info);
  }
  if (code != 0) return code;
  inner->info.reset(info);
  fid_fabric* fabric = nullptr;
  code = fi_fabric(info->fabric_attr, &fabric, nullptr);
  if (code != 0) return code;
  inner->fabric.reset(fabric);
  fid_domain* domain = nullptr;
  code = fi_domain(fabric, info, &domain, nullptr);
  if (code != 0) return code;
  inner->domain.reset(domain);
  *result = std::move(inner);
  return 0;
}

int InnerEndpoint::Open(const InnerDomain& domain, const Contract& contract,
                        std::unique_ptr<InnerEndpoint>* result) {
  int code = 0;
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    std::unique_ptr<InnerEndpoint> endpoint(new InnerEndpoint);
    code = endpoint->Start(domain, contract);
    if (code == 0) {
      *result = std::move(endpoint);
      return 0;
    }
    // Somebody else drew the same name.
    if (code != -FI_EADDRINUSE && code != -FI_EBUSY) return code;
  }
  return code;
}

int InnerEndpoint::Start(const InnerDomain& domain, const Contract& contract) {
  is_ip_ = domain.is_ip;
  fi_cq_attr cq_attributes = {};
  cq_attributes.size = 2 * (kReceives + kSends);
  cq_attributes.format = FI_CQ_FORMAT_MSG;
  cq_attributes.wait_obj = FI_WAIT_NONE;
  fid_cq* cq = nullptr;
  int code = fi_cq_open(domain.domain.get(), &cq_attributes, &cq, nullptr);
  if (code != 0) return code;
  cq_.reset(cq);
  fi_av_attr av_attributes = {};
  av_attributes.type = FI_AV_TABLE;
  fid_av* av = nullptr;
  code = fi_av_open(domain.domain.get(), &av_attributes, &av, nullptr);
  if (code != 0) return code;
  av_.reset(av);
  fid_ep* endpoint = nullptr;
  code = fi_endpoint(domain.domain.get(), domain.info.get(), &endpoint, nullptr);
  if (code != 0) return code;
  endpoint_.reset(endpoint);
  place_.nonce = static_cast<uint32_t>(Entropy());
  place_.number = static_cast<uint32_t>(Entropy() & 0xffff) | 1;
  if (!is_ip_) {
    std::string name = NewInnerName(contract, place_);
    code = fi_setname(&endpoint->fid, name.data(), name.size() + 1);
    if (code != 0) return code;
  }
  if ((code = fi_ep_bind(endpoint, &av->fid, 0)) != 0) return code;
  if ((code = fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV)) != 0) return code;
  if ((code = fi_enable(endpoint)) != 0) return code;
  if (is_ip_) {
    sockaddr_in address = {};
    size_t length = sizeof(address);
    if ((code = fi_getname(&endpoint->fid, &address, &length)) != 0) return code;
    place_.ipv4 = address.sin_addr.s_addr;
    place_.number = ntohs(address.sin_port);
  }
  for (size_t i = 0; i < kReceives + kSends; ++i) {
    packets_.push_back(std::make_unique<Packet>());
    if (i < kSends) {
      free_.push_back(packets_.back().get());
    } else {
      Receive(packets_.back().get());
    }
  }
  return 0;
}

InnerEndpoint::~InnerEndpoint() {
  std::unique_lock<std::shared_mutex> lock(GonePeers().lock);
  if (!is_ip_ && endpoint_ != nullptr) GonePeers().keys.insert(KeyOf(place_));
  // Before the packets, into which it may still receive.
  endpoint_.reset();
}

int InnerEndpoint::AddPeer(const Contract& contract, const Place& place, fi_addr_t* address) {
  if (is_ip_ != (place.ipv4 != 0)) return -FI_EADDRNOTAVAIL;
  int inserted = 0;
  if (is_ip_) {
    sockaddr_in raw = {};
    raw.sin_family = AF_INET;
    raw.sin_addr.s_addr = place.ipv4;
    raw.sin_port = htons(static_cast<uint16_t>(place.number));
    inserted = fi_av_insert(av_.get(), &raw, 1, address, 0, nullptr);
  } else {
    // Padded, because a provider may read more than the string.
    std::string name = InnerName(contract, place);
    name.resize(name.size() + 256);
    std::shared_lock<std::shared_mutex> lock(GonePeers().lock);
    // shm follows the closed region even to insert it. Send knows.
    *address = FI_ADDR_NOTAVAIL;
    if (GonePeers().keys.count(KeyOf(place)) != 0) return 0;
    inserted = fi_av_insert(av_.get(), name.data(), 1, address, 0, nullptr);
  }
  if (inserted < 0) return inserted;
  if (inserted != 1 || *address == FI_ADDR_NOTAVAIL) return -FI_EADDRNOTAVAIL;
  if (peer_keys_.size() <= *address) peer_keys_.resize(*address + 1);
  peer_keys_[*address] = KeyOf(place);
  return 0;
}

Packet* InnerEndpoint::Take() {
  if (free_.empty()) return nullptr;
  Packet* packet = free_.back();
  free_.pop_back();
  packet->sending = true;
  packet->operation = 0;
  memset(packet->bytes, 0, sizeof(PacketHeader));
  return packet;
}

ssize_t InnerEndpoint::Send(Packet* packet, fi_addr_t to) {
  std::shared_lock<std::shared_mutex> lock(GonePeers().lock);
  if (to == FI_ADDR_NOTAVAIL) return -FI_EHOSTUNREACH;
  if (!is_ip_ && GonePeers().keys.count(peer_keys_[to]) != 0) return -FI_EHOSTUNREACH;
  return fi_send(endpoint_.get(), packet->bytes, sizeof(PacketHeader) + packet->header()->payload,
                 nullptr, to, &packet->context);
}

void InnerEndpoint::Receive(Packet* packet) {
  packet->sending = false;
  if (fi_recv(endpoint_.get(), packet->bytes, kPacketBytes, nullptr, FI_ADDR_UNSPEC,
              &packet->context) != 0) {
    unposted_.push_back(packet);
  }
}

void InnerEndpoint::Poll(int budget, InnerEvents* events) {
  constexpr int kBatch = 16;
  while (budget > 0) {
    fi_cq_msg_entry entries[kBatch];
    const ssize_t count = fi_cq_read(cq_.get(), entries, kBatch);
    if (count == -FI_EAVAIL) {
      fi_cq_err_entry error = {};
      if (fi_cq_readerr(cq_.get(), &error, 0) <= 0) return;
      auto* packet = static_cast<Packet*>(error.op_context);
      if (packet == nullptr) continue;
      if (packet->sending) {
        const uint64_t operation = packet->operation;
        GiveBack(packet);
        events->OnSent(operation, error.err);
      } else if (error.err != FI_ECANCELED) {
        Receive(packet);
      }
      --budget;
      continue;
    }
    if (count <= 0) break;
    for (ssize_t i = 0; i < count; ++i) {
      auto* packet = static_cast<Packet*>(entries[i].op_context);
      if (packet->sending) {
        const uint64_t operation = packet->operation;
        GiveBack(packet);
        events->OnSent(operation, 0);
        continue;
      }
      const PacketHeader& header = *packet->header();
      if (entries[i].len >= sizeof(PacketHeader) &&
          entries[i].len == sizeof(PacketHeader) + header.payload) {
        events->OnPacket(header, packet->payload());
      }
      Receive(packet);
    }
    budget -= static_cast<int>(count);
  }
  if (!unposted_.empty()) {
    std::vector<Packet*> again;
    again.swap(unposted_);
    for (Packet* packet : again) Receive(packet);
  }
}

}  // namespace contract
