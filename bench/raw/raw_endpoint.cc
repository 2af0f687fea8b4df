#include "bench/raw/raw_endpoint.h"

#include <arpa/inet.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/raw/round_trips.h"
#include "src/base/hex.h"

namespace invoker::bench {
namespace {

constexpr int64_t kGiveUpNs = 10'000'000'000;
constexpr uint32_t kApiVersion = FI_VERSION(1, 17);
constexpr size_t kMostOutstanding = 1024;
// More than a burst of writes that has come while nobody asked for it.
constexpr size_t kUsualArrivals = 4096;

absl::Status Error(absl::string_view provider, absl::string_view operation, ssize_t code) {
  return absl::UnavailableError(absl::StrCat("raw endpoint, provider ", provider, ": ", operation,
                                             ": ", fi_strerror(static_cast<int>(-code))));
}

// The lowest of the layers that a provider's name lists says how endpoints are addressed.
bool IsAddressedByIp(absl::string_view provider) {
  for (const char* name : {"tcp", "net", "sockets", "udp", "verbs"}) {
    if (provider == name || absl::StartsWith(provider, absl::StrCat(name, ";"))) return true;
  }
  return false;
}

bool IsIpv6(const std::string& address) {
  in6_addr ignored;
  return inet_pton(AF_INET6, address.c_str(), &ignored) == 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RawEndpoint>> RawEndpoint::Open(const std::string& provider,
                                                               const std::string& address,
                                                               size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::unique_ptr<RawEndpoint> raw(new RawEndpoint);
  raw->provider_ = provider;
  raw->bytes_ = std::max((bytes + page - 1) / page, size_t{1}) * page;
  void* memory =
      mmap(nullptr, 2 * raw->bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", 2 * raw->bytes_, " bytes of memory: ", strerror(errno)));
  }
  raw->memory_ = static_cast<std::byte*>(memory);
  // Zeros as well as any: written, so that every page is there.
  memset(raw->memory_, 0, raw->bytes_);
  for (size_t i = 0; i < raw->bytes_; ++i) raw->source()[i] = static_cast<std::byte>(i);
  raw->arrived_.reserve(kUsualArrivals);
  if (absl::Status status = raw->OpenObjects(provider, address); !status.ok()) return status;
  if (absl::Status status = raw->OpenEndpoint(); !status.ok()) return status;
  if (absl::Status status = raw->Register(); !status.ok()) return status;
  return raw;
}

RawEndpoint::~RawEndpoint() {
  region_.reset();
  endpoint_.reset();
  if (memory_ != nullptr) munmap(memory_, 2 * bytes_);
}

absl::Status RawEndpoint::OpenObjects(const std::string& provider, const std::string& address) {
  std::unique_ptr<fi_info, FreeInfo> hints(fi_allocinfo());
  if (hints == nullptr) return absl::ResourceExhaustedError("fi_allocinfo: no memory");
  // No message order: none is needed, and asking for one makes writes slower on shm.
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  const bool by_ip = IsAddressedByIp(provider) && !address.empty();
  if (by_ip && IsIpv6(address)) hints->addr_format = FI_SOCKADDR_IN6;
  fi_info* list = nullptr;
  int code = fi_getinfo(kApiVersion, by_ip ? address.c_str() : nullptr, nullptr,
                        by_ip ? FI_SOURCE : 0, hints.get(), &list);
  if (code != 0) return Error(provider, absl::StrCat("fi_getinfo at '", address, "'"), code);
  const std::unique_ptr<fi_info, FreeInfo> found(list);
  // The name is a filter that lets layers over it through, too.
  const fi_info* entry = list;
  while (entry != nullptr && provider != entry->fabric_attr->prov_name) entry = entry->next;
  if (entry == nullptr) return Error(provider, "fi_getinfo", -FI_ENODATA);
  info_.reset(fi_dupinfo(entry));
  if (info_ == nullptr) return absl::ResourceExhaustedError("fi_dupinfo: no memory");

  fid_fabric* fabric = nullptr;
  code = fi_fabric(info_->fabric_attr, &fabric, nullptr);
  if (code != 0) return Error(provider, "fi_fabric", code);
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  code = fi_domain(fabric, info_.get(), &domain, nullptr);
  if (code != 0) return Error(provider, "fi_domain", code);
  domain_.reset(domain);
  return absl::OkStatus();
}

absl::Status RawEndpoint::OpenEndpoint() {
  fi_av_attr av_attributes = {};
  av_attributes.type = FI_AV_TABLE;
  fid_av* av = nullptr;
  int code = fi_av_open(domain_.get(), &av_attributes, &av, nullptr);
  if (code != 0) return Error(provider_, "fi_av_open", code);
  av_.reset(av);
  fi_cq_attr cq_attributes = {};
  cq_attributes.size = info_->tx_attr->size + info_->rx_attr->size;
  cq_attributes.format = FI_CQ_FORMAT_DATA;
  cq_attributes.wait_obj = FI_WAIT_NONE;
  fid_cq* cq = nullptr;
  code = fi_cq_open(domain_.get(), &cq_attributes, &cq, nullptr);
  if (code != 0) return Error(provider_, "fi_cq_open", code);
  cq_.reset(cq);
  fid_ep* endpoint = nullptr;
  code = fi_endpoint(domain_.get(), info_.get(), &endpoint, nullptr);
  if (code != 0) return Error(provider_, "fi_endpoint", code);
  endpoint_.reset(endpoint);
  code = fi_ep_bind(endpoint, &av->fid, 0);
  if (code != 0) return Error(provider_, "fi_ep_bind of the address vector", code);
  code = fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV);
  if (code != 0) return Error(provider_, "fi_ep_bind of the completion queue", code);
  code = fi_enable(endpoint);
  if (code != 0) return Error(provider_, "fi_enable", code);

  contexts_.resize(std::clamp(info_->tx_attr->size, size_t{1}, kMostOutstanding));
  for (fi_context2& context : contexts_) free_contexts_.push_back(&context);
  return absl::OkStatus();
}

absl::Status RawEndpoint::Register() {
  fid_mr* region = nullptr;
  int code = fi_mr_reg(domain_.get(), memory_, 2 * bytes_, FI_WRITE | FI_REMOTE_WRITE, 0, 1, 0,
                       &region, nullptr);
  if (code != 0) return Error(provider_, "fi_mr_reg", code);
  region_.reset(region);
  if ((info_->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
    code = fi_mr_bind(region, &endpoint_->fid, 0);
    if (code == 0) code = fi_mr_enable(region);
    if (code != 0) return Error(provider_, "fi_mr_bind of the endpoint", code);
  }
  if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0) descriptor_ = fi_mr_desc(region);
  return absl::OkStatus();
}

std::string RawEndpoint::Describe() const {
  char name[256];
  size_t length = sizeof(name);
  if (fi_getname(&endpoint_->fid, name, &length) != 0) length = 0;
  const bool is_virtual = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  return absl::StrCat(absl::BytesToHexString(absl::string_view(name, length)), " ",
                      is_virtual ? reinterpret_cast<uintptr_t>(memory_) : 0, " ",
                      fi_mr_key(region_.get()), " ", bytes_);
}

absl::Status RawEndpoint::Meet(absl::string_view peer_description) {
  const std::vector<absl::string_view> words = absl::StrSplit(peer_description, ' ');
  uint64_t bytes = 0;
  absl::optional<std::string> name = BytesFromHex(words[0]);
  if (words.size() != 4 || !name.has_value() || name->empty() ||
      !absl::SimpleAtoi(words[1], &peer_base_) || !absl::SimpleAtoi(words[2], &peer_key_) ||
      !absl::SimpleAtoi(words[3], &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("not what a raw endpoint says of itself: '", peer_description, "'"));
  }
  if (bytes != bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer's messages have up to ", bytes, " bytes, ours up to ", bytes_));
  }
  name->push_back('\0');
  const int inserted = fi_av_insert(av_.get(), name->data(), 1, &peer_, 0, nullptr);
  if (inserted != 1) return Error(provider_, "fi_av_insert", inserted < 0 ? inserted : -FI_EINVAL);
  return absl::OkStatus();
}

absl::Status RawEndpoint::Empty(ssize_t code, uint32_t* turns, int64_t* give_up_ns) {
  if (code != -FI_EAGAIN) {
    if (code != -FI_EAVAIL) return Error(provider_, "fi_cq_read", code);
    fi_cq_err_entry entry = {};
    const ssize_t read = fi_cq_readerr(cq_.get(), &entry, 0);
    return Error(provider_, "an operation failed", read == 1 ? -entry.err : read);
  }
  if (++*turns % kTurnsPerLook != 0) return absl::OkStatus();
  const int64_t now = ClockNs();
  if (*give_up_ns == 0) *give_up_ns = now + kGiveUpNs;
  if (now < *give_up_ns) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("raw endpoint, provider ", provider_, ": nothing has come for ten seconds, ",
                   contexts_.size() - free_contexts_.size(), " writes of ours are under way"));
}

inline absl::Status RawEndpoint::Poll(uint32_t* turns, int64_t* give_up_ns) {
  fi_cq_data_entry entries[kBatch];
  const ssize_t count = fi_cq_read(cq_.get(), entries, kBatch);
  if (count <= 0) return Empty(count, turns, give_up_ns);
  for (ssize_t i = 0; i < count; ++i) {
    // Not every libfabric says FI_REMOTE_WRITE there.
    if ((entries[i].flags & (FI_REMOTE_CQ_DATA | FI_WRITE)) == FI_REMOTE_CQ_DATA) {
      arrived_.push_back(static_cast<uint32_t>(entries[i].data));
    } else {
      // Never allocates: there is room for all of them.
      free_contexts_.push_back(entries[i].op_context);
    }
  }
  return absl::OkStatus();
}

absl::Status RawEndpoint::Write(size_t bytes, uint32_t data) {
  uint32_t turns = 0;
  int64_t give_up_ns = 0;
  while (free_contexts_.empty()) {
    if (absl::Status status = Poll(&turns, &give_up_ns); !status.ok()) return status;
  }
  void* const context = free_contexts_.back();
  free_contexts_.pop_back();
  while (true) {
    const ssize_t code = fi_writedata(endpoint_.get(), source(), bytes, descriptor_, data, peer_,
                                      peer_base_, peer_key_, context);
    if (code == 0) return absl::OkStatus();
    absl::Status status =
        code == -FI_EAGAIN ? Poll(&turns, &give_up_ns) : Error(provider_, "fi_writedata", code);
    if (!status.ok()) {
      free_contexts_.push_back(context);
      return status;
    }
  }
}

absl::StatusOr<uint32_t> RawEndpoint::Await() {
  uint32_t turns = 0;
  int64_t give_up_ns = 0;
  while (next_arrived_ == arrived_.size()) {
    if (absl::Status status = Poll(&turns, &give_up_ns); !status.ok()) return status;
  }
  const uint32_t data = arrived_[next_arrived_++];
  if (next_arrived_ == arrived_.size()) {
    arrived_.clear();
    next_arrived_ = 0;
  }
  return data;
}

absl::StatusOr<bool> RawEndpoint::TryWrite(size_t offset, size_t bytes, uint32_t data) {
  if (free_contexts_.empty()) return false;
  const ssize_t code = fi_writedata(endpoint_.get(), source() + offset, bytes, descriptor_, data,
                                    peer_, peer_base_ + offset, peer_key_, free_contexts_.back());
  if (code == -FI_EAGAIN) return false;
  if (code != 0) return Error(provider_, "fi_writedata", code);
  free_contexts_.pop_back();
  return true;
}

absl::StatusOr<size_t> RawEndpoint::TakeArrived(absl::Span<uint32_t> data) {
  // A caller that loops looks at the clock.
  uint32_t turns = 0;
  int64_t give_up_ns = 0;
  if (absl::Status status = Poll(&turns, &give_up_ns); !status.ok()) return status;
  const size_t count = std::min(data.size(), arrived_.size() - next_arrived_);
  std::copy_n(arrived_.begin() + static_cast<ptrdiff_t>(next_arrived_), count, data.begin());
  next_arrived_ += count;
  if (next_arrived_ == arrived_.size()) {
    arrived_.clear();
    next_arrived_ = 0;
  }
  return count;
}

absl::Status RawEndpoint::Drain() {
  uint32_t turns = 0;
  int64_t give_up_ns = 0;
  while (free_contexts_.size() < contexts_.size()) {
    if (absl::Status status = Poll(&turns, &give_up_ns); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace invoker::bench
