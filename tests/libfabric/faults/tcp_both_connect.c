// Two endpoints on libfabric's tcp that write to each other before either has a connection, without
// any code of Invoker's.
//
// From libfabric 1.18 on, one of the two writes can be lost, though its initiator is told that it
// was done. Each side asks for a connection, and one of the two requests is to win. The side whose
// request has won has to tell the other request from one of a peer that has started again. It goes
// by the peer's process number (prov/tcp/src/xnet_rdm_cm.c, xnet_process_connreq). Until it has
// seen that it has won, that field has what an earlier connection left in the same memory
// (xnet_alloc_conn). If that is another process, the connection that has won is closed, with what
// it carries.
//
//   cc tcp_both_connect.c -lfabric && ./a.out
//
// Prints "arrived" and ends with 0 where libfabric is right. Prints "lost" and ends by SIGABRT
// where it is not. With the argument "one", one side begins and the other answers: that works.

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The ports decide which request wins, and what an earlier connection left.
#define ROUNDS 200

// So many looks in turn move everything that is still to move.
#define LOOKS 100000

#define CHECK(call)                                                           \
  do {                                                                        \
    const long check_code = (call);                                           \
    if (check_code != 0) {                                                    \
      fprintf(stderr, "%s: %s\n", #call, fi_strerror((int)labs(check_code))); \
      exit(2);                                                                \
    }                                                                         \
  } while (0)

// What libfabric calls: each side says that it is a process of its own.
static pid_t process;
pid_t getpid(void) { return process; }

struct side {
  pid_t process;
  struct fid_domain* domain;
  struct fid_av* av;
  struct fid_cq* cq;
  struct fid_ep* endpoint;
  struct fid_mr* region;
  char memory[8];
  char name[64];
  fi_addr_t peer;
  int has_written;
  int has_arrived;
};

static void open_side(struct fid_fabric* fabric, struct fi_info* info, pid_t number,
                      struct side* side) {
  struct fi_av_attr av = {.type = FI_AV_TABLE};
  struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
  size_t length = sizeof(side->name);
  memset(side, 0, sizeof(*side));
  side->process = number;
  CHECK(fi_domain(fabric, info, &side->domain, NULL));
  CHECK(fi_av_open(side->domain, &av, &side->av, NULL));
  CHECK(fi_cq_open(side->domain, &cq, &side->cq, NULL));
  CHECK(fi_endpoint(side->domain, info, &side->endpoint, NULL));
  CHECK(fi_ep_bind(side->endpoint, &side->av->fid, 0));
  CHECK(fi_ep_bind(side->endpoint, &side->cq->fid, FI_TRANSMIT | FI_RECV));
  CHECK(fi_enable(side->endpoint));
  CHECK(fi_getname(&side->endpoint->fid, side->name, &length));
  CHECK(fi_mr_reg(side->domain, side->memory, sizeof(side->memory), FI_REMOTE_WRITE, 0, 1, 0,
                  &side->region, NULL));
}

static void close_side(struct side* side) {
  CHECK(fi_close(&side->endpoint->fid));
  CHECK(fi_close(&side->region->fid));
  CHECK(fi_close(&side->cq->fid));
  CHECK(fi_close(&side->av->fid));
  CHECK(fi_close(&side->domain->fid));
}

static void look(struct side* side) {
  struct fi_cq_data_entry entry;
  process = side->process;
  if (fi_cq_read(side->cq, &entry, 1) == 1 && (entry.flags & FI_REMOTE_CQ_DATA) != 0) {
    side->has_arrived = 1;
  }
}

static void write_once(struct side* side) {
  ssize_t code;
  if (side->has_written) return;
  process = side->process;
  code = fi_inject_writedata(side->endpoint, "message", 8, 7, side->peer, 0, 1);
  if (code == -FI_EAGAIN) return;
  CHECK(code);
  side->has_written = 1;
}

int main(int argc, char** argv) {
  const int one = argc > 1 && strcmp(argv[1], "one") == 0;
  struct fi_info* hints = fi_allocinfo();
  struct fi_info* info;
  struct fid_fabric* fabric;
  static struct side a, b;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->fabric_attr->prov_name = strdup("tcp");
  CHECK(fi_getinfo(FI_VERSION(1, 18), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
  CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
  open_side(fabric, info, 1, &a);
  for (int round = 0; round < ROUNDS; ++round) {
    a.has_written = a.has_arrived = 0;
    open_side(fabric, info, 2 + round, &b);
    if (fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL) != 1) return 2;
    if (fi_av_insert(b.av, a.name, 1, &b.peer, 0, NULL) != 1) return 2;
    for (int looks = 0; !a.has_arrived || !b.has_arrived; ++looks) {
      if (looks == LOOKS) {
        fprintf(stderr, "lost, in round %d\n", round);
        abort();
      }
      write_once(&a);
      if (!one || b.has_arrived) write_once(&b);
      look(&a);
      look(&b);
    }
    close_side(&b);
  }
  printf("arrived\n");
  return 0;
}
