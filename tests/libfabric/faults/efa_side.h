// An endpoint of libfabric's EFA provider, for the programs efa_*.c. They need an EFA card, or
// tests/efa_device/run.

#ifndef INVOKER_TESTS_LIBFABRIC_FAULTS_EFA_SIDE_H_
#define INVOKER_TESTS_LIBFABRIC_FAULTS_EFA_SIDE_H_

#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (1 << 20)

// So many looks in turn move everything that is still to move.
#define LOOKS 100000

// Longer than a healthy program runs, however busy the machine is.
#define SECONDS 50

#define CHECK(call)                                                           \
  do {                                                                        \
    const long check_code = (call);                                           \
    if (check_code != 0) {                                                    \
      fprintf(stderr, "%s: %s\n", #call, fi_strerror((int)labs(check_code))); \
      exit(2);                                                                \
    }                                                                         \
  } while (0)

struct side {
  struct fid_fabric* fabric;
  struct fid_domain* domain;
  struct fid_av* av;
  struct fid_cq* cq;
  struct fid_eq* eq;
  struct fid_ep* endpoint;
  struct fid_mr* region;
  char* memory;
  char name[64];
  int sent, received, written, failed;
  char failure[256];
};

// Call this first. `device_rdma` and `shm` say whether the provider may use the card's RDMA, and
// shm between processes of one host: "1" or "0".
static inline void choose(const char* device_rdma, const char* shm) {
  setenv("FI_EFA_USE_DEVICE_RDMA", device_rdma, 1);
  setenv("FI_EFA_ENABLE_SHM_TRANSFER", shm, 1);
  // A library that libfabric loads may have taken them.
  signal(SIGSEGV, SIG_DFL);
  signal(SIGABRT, SIG_DFL);
}

// Removes the shm file of the side with this name. libfabric 1.17 has one even if it may not use
// shm, and a process that ends by a signal leaves it.
static inline void unlink_shm(const char* name) {
  char gid[INET6_ADDRSTRLEN], file[128];
  uint16_t qpn;
  uint32_t qkey;
  memcpy(&qpn, name + 16, sizeof(qpn));
  memcpy(&qkey, name + 20, sizeof(qkey));
  inet_ntop(AF_INET6, name, gid, sizeof(gid));
  snprintf(file, sizeof(file), "%s_%04x_%08x_%04x", gid, qpn, qkey, getuid());
  shm_unlink(file);
}

// All of the side's memory is registered, for `access`.
static inline void open_side(struct side* side, uint64_t access) {
  struct fi_info* hints = fi_allocinfo();
  struct fi_info* info;
  struct fi_av_attr av = {.type = FI_AV_TABLE};
  struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
  struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
  size_t length = sizeof(side->name);
  alarm(SECONDS);
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup("efa");
  hints->fabric_attr->name = strdup("efa");
  CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
  CHECK(fi_fabric(info->fabric_attr, &side->fabric, NULL));
  CHECK(fi_domain(side->fabric, info, &side->domain, NULL));
  CHECK(fi_av_open(side->domain, &av, &side->av, NULL));
  CHECK(fi_cq_open(side->domain, &cq, &side->cq, NULL));
  CHECK(fi_eq_open(side->fabric, &eq, &side->eq, NULL));
  CHECK(fi_endpoint(side->domain, info, &side->endpoint, NULL));
  CHECK(fi_ep_bind(side->endpoint, &side->av->fid, 0));
  CHECK(fi_ep_bind(side->endpoint, &side->cq->fid, FI_TRANSMIT | FI_RECV));
  // Without an event queue, a fault that the provider finds would abort the process.
  CHECK(fi_ep_bind(side->endpoint, &side->eq->fid, 0));
  CHECK(fi_enable(side->endpoint));
  CHECK(fi_getname(&side->endpoint->fid, side->name, &length));
  if (getenv("FI_EFA_ENABLE_SHM_TRANSFER")[0] == '0') unlink_shm(side->name);
  side->memory = calloc(BYTES, 1);
  CHECK(fi_mr_reg(side->domain, side->memory, BYTES, access, 0, 0, 0, &side->region, NULL));
}

static inline fi_addr_t meet(struct side* side, const char* name) {
  fi_addr_t peer;
  if (fi_av_insert(side->av, name, 1, &peer, 0, NULL) != 1) exit(2);
  return peer;
}

// Takes one completion and one event.
static inline void look(struct side* side) {
  struct fi_cq_data_entry entry;
  struct fi_cq_err_entry error = {0};
  struct fi_eq_err_entry event = {0};
  struct fi_eq_entry ignored;
  uint32_t kind;
  const ssize_t count = fi_cq_read(side->cq, &entry, 1);
  if (count == 1 && (entry.flags & FI_RECV)) ++side->received;
  if (count == 1 && (entry.flags & FI_SEND)) ++side->sent;
  if (count == 1 && (entry.flags & FI_WRITE)) ++side->written;
  if (count == -FI_EAVAIL && fi_cq_readerr(side->cq, &error, 0) == 1) {
    ++side->failed;
    snprintf(side->failure, sizeof(side->failure), "completion: %s, %d", fi_strerror(error.err),
             error.prov_errno);
  }
  if (fi_eq_read(side->eq, &kind, &ignored, sizeof(ignored), 0) == -FI_EAVAIL &&
      fi_eq_readerr(side->eq, &event, 0) > 0) {
    ++side->failed;
    snprintf(side->failure, sizeof(side->failure), "event: %s, %d", fi_strerror(abs(event.err)),
             event.prov_errno);
  }
}

#endif  // INVOKER_TESTS_LIBFABRIC_FAULTS_EFA_SIDE_H_
