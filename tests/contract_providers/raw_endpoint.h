// One endpoint of an emulated fabric, through libfabric's own calls, for tests: a CQ, an AV, memory
// that peers may write to, and a record of every completion.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_RAW_ENDPOINT_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_RAW_ENDPOINT_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/contract_providers/core/control.h"
#include "tests/contract_providers/delivery_write.h"

namespace contract {

// A fabric under test.
struct Emulated {
  const char* name;
  const char* provider;
  const char* fabric;
  const char* generation;  // CONTRACT_EFA_GENERATION
  const char* inner;       // CONTRACT_INNER
};

inline std::ostream& operator<<(std::ostream& out, const Emulated& fabric) {
  return out << fabric.name;
}

inline constexpr Emulated kEfaFirst = {"EfaFirst", "efa", "efa", "1", "shm"};
inline constexpr Emulated kEfaSecond = {"EfaSecond", "efa", "efa", "2", "shm"};
inline constexpr Emulated kEfaDirect = {"EfaDirect", "efa", "efa-direct", "2", "shm"};
inline constexpr Emulated kGni = {"Gni", "gni", "gni", "1", "shm"};
inline constexpr Emulated kEfaOverTcp = {"EfaOverTcp", "efa", "efa", "1", "tcp;ofi_rxm"};
inline constexpr Emulated kGniOverTcp = {"GniOverTcp", "gni", "gni", "1", "tcp;ofi_rxm"};

inline std::string NameOfFabric(const testing::TestParamInfo<Emulated>& info) {
  return info.param.name;
}

// Chooses the fabric for what is discovered and opened from here on.
inline void Select(const Emulated& fabric) {
  setenv("CONTRACT_EFA_GENERATION", fabric.generation, 1);
  setenv("CONTRACT_INNER", fabric.inner, 1);
}

struct InfoDeleter {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using InfoPointer = std::unique_ptr<fi_info, InfoDeleter>;

struct FidDeleter {
  template <typename Fid>
  void operator()(Fid* object) const {
    EXPECT_EQ(fi_close(&object->fid), 0);
  }
};
template <typename Fid>
using FidPointer = std::unique_ptr<Fid, FidDeleter>;

// What Invoker would ask for, or something close to it.
inline InfoPointer MakeHints(const Emulated& fabric, uint64_t caps = FI_MSG | FI_RMA) {
  InfoPointer hints(fi_allocinfo());
  hints->caps = caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  // Told back by fabrics that keep it.
  if (fabric.fabric != std::string("efa-direct")) {
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
  }
  hints->fabric_attr->prov_name = strdup(fabric.provider);
  hints->fabric_attr->name = strdup(fabric.fabric);
  return hints;
}

inline int Ask(const fi_info* hints, InfoPointer* result) {
  fi_info* info = nullptr;
  const int code = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info);
  result->reset(info);
  return code;
}

class RawEndpoint {
 public:
  static constexpr size_t kMemory = 1 << 20;

  struct Options {
    uint64_t caps = FI_MSG | FI_RMA;
    enum fi_wait_obj wait = FI_WAIT_NONE;
    enum fi_progress progress = FI_PROGRESS_MANUAL;
    uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  };

  explicit RawEndpoint(const Emulated& fabric_case) : RawEndpoint(fabric_case, Options()) {}
  RawEndpoint(const Emulated& fabric_case, const Options& options) : memory(kMemory) {
    Select(fabric_case);
    InfoPointer hints = MakeHints(fabric_case, options.caps);
    hints->domain_attr->data_progress = options.progress;
    Succeeds("fi_getinfo", Ask(hints.get(), &info));
    if (info == nullptr) return;
    fid_fabric* raw_fabric = nullptr;
    Succeeds("fi_fabric", fi_fabric(info->fabric_attr, &raw_fabric, nullptr));
    fabric.reset(raw_fabric);
    fid_domain* raw_domain = nullptr;
    Succeeds("fi_domain", fi_domain(raw_fabric, info.get(), &raw_domain, nullptr));
    domain.reset(raw_domain);
    fi_cq_attr cq_attributes = {};
    cq_attributes.format = FI_CQ_FORMAT_DATA;
    cq_attributes.wait_obj = options.wait;
    fid_cq* raw_cq = nullptr;
    Succeeds("fi_cq_open", fi_cq_open(raw_domain, &cq_attributes, &raw_cq, nullptr));
    cq.reset(raw_cq);
    fi_av_attr av_attributes = {};
    av_attributes.type = FI_AV_TABLE;
    fid_av* raw_av = nullptr;
    Succeeds("fi_av_open", fi_av_open(raw_domain, &av_attributes, &raw_av, nullptr));
    av.reset(raw_av);
    fid_ep* raw_endpoint = nullptr;
    Succeeds("fi_endpoint", fi_endpoint(raw_domain, info.get(), &raw_endpoint, nullptr));
    endpoint.reset(raw_endpoint);
    Succeeds("fi_ep_bind", fi_ep_bind(raw_endpoint, &raw_av->fid, 0));
    Succeeds("fi_ep_bind", fi_ep_bind(raw_endpoint, &raw_cq->fid, FI_TRANSMIT | FI_RECV));
    Succeeds("fi_enable", fi_enable(raw_endpoint));
    region = Register(memory.data(), memory.size(), options.access);
  }

  FidPointer<fid_mr> Register(void* buffer, size_t length, uint64_t access) {
    fid_mr* raw = nullptr;
    Succeeds("fi_mr_reg", fi_mr_reg(domain.get(), buffer, length, access, 0, 7, 0, &raw, nullptr));
    return FidPointer<fid_mr>(raw);
  }

  std::string Name() const {
    char name[64] = "";
    size_t length = sizeof(name);
    EXPECT_EQ(fi_getname(&endpoint->fid, name, &length), 0);
    return std::string(name, length);
  }

  fi_addr_t Insert(const std::string& name) {
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    EXPECT_EQ(fi_av_insert(av.get(), name.data(), 1, &address, 0, nullptr), 1);
    return address;
  }

  // One read of the CQ.
  void Poll() {
    fi_cq_data_entry batch[16];
    fi_addr_t sources[16];
    const ssize_t count = fi_cq_readfrom(cq.get(), batch, 16, sources);
    if (count == -FI_EAVAIL) {
      fi_cq_err_entry error = {};
      ASSERT_EQ(fi_cq_readerr(cq.get(), &error, 0), 1);
      errors.push_back(error);
      return;
    }
    if (count < 0) {
      ASSERT_EQ(count, -FI_EAGAIN);
      return;
    }
    for (ssize_t i = 0; i < count; ++i) {
      entries.push_back(batch[i]);
      entry_sources.push_back(sources[i]);
      if (on_entry) on_entry(batch[i]);
    }
  }

  void* descriptor() const { return fi_mr_desc(region.get()); }
  uint64_t key() const { return fi_mr_key(region.get()); }
  uint64_t remote(size_t offset) const {
    return reinterpret_cast<uintptr_t>(memory.data()) + offset;
  }

  // How many entries have all of these flags.
  size_t Count(uint64_t flags) const {
    size_t count = 0;
    for (const fi_cq_data_entry& entry : entries) count += (entry.flags & flags) == flags;
    return count;
  }

  Statistics GetStatistics() const {
    Statistics statistics;
    Control()->statistics(endpoint.get(), &statistics);
    return statistics;
  }

  std::vector<Decision> Decisions() const {
    std::vector<Decision> decisions(65536);
    decisions.resize(Control()->decisions(endpoint.get(), decisions.data(), decisions.size()));
    return decisions;
  }

  // In this order, so that each goes before what it was opened on.
  InfoPointer info;
  std::vector<uint8_t> memory;
  FidPointer<fid_fabric> fabric;
  FidPointer<fid_domain> domain;
  FidPointer<fid_av> av;
  FidPointer<fid_cq> cq;
  FidPointer<fid_mr> region;
  FidPointer<fid_ep> endpoint;

  std::vector<fi_cq_data_entry> entries;
  std::vector<fi_addr_t> entry_sources;
  std::vector<fi_cq_err_entry> errors;
  std::function<void(const fi_cq_data_entry&)> on_entry;

 private:
  static void Succeeds(const char* call, int code) {
    ASSERT_EQ(code, 0) << call << ": " << fi_strerror(-code);
  }

  const ControlOps* Control() const {
    void* ops = nullptr;
    EXPECT_EQ(fi_open_ops(&endpoint->fid, kControlName, 0, &ops, nullptr), 0);
    return static_cast<ControlOps*>(ops);
  }
};

// Longer than any healthy run takes, however busy the machine is.
inline constexpr std::chrono::seconds kGiveUp{30};

// Polls them in turn until `done` is true; false if it never is.
inline bool PollUntil(std::initializer_list<RawEndpoint*> endpoints,
                      const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + kGiveUp;
  while (!done()) {
    for (RawEndpoint* endpoint : endpoints) endpoint->Poll();
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

// Calls `post` until it is not refused with -FI_EAGAIN, polling in between; what it returned then.
inline ssize_t Insist(std::initializer_list<RawEndpoint*> endpoints,
                      const std::function<ssize_t()>& post, int* refusals = nullptr) {
  const auto end = std::chrono::steady_clock::now() + kGiveUp;
  ssize_t code = post();
  while (code == -FI_EAGAIN && std::chrono::steady_clock::now() < end) {
    if (refusals != nullptr) ++*refusals;
    for (RawEndpoint* endpoint : endpoints) endpoint->Poll();
    code = post();
  }
  return code;
}

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_RAW_ENDPOINT_H_
