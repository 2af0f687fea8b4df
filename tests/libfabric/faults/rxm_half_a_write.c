// A peer on libfabric's tcp;ofi_rxm that goes away in the middle of its write with immediate,
// without any code of Invoker's.
//
// From libfabric 1.18 on, the endpoint that is written to follows a null pointer when it notices
// (SIGSEGV in rxm_handle_comp_error), whatever the reason why the connection ended: tcp reports the
// half received write as an error that has no context (prov/tcp/src/xnet_cq.c, xnet_report_error),
// and prov/rxm/src/rxm_cq.c looks up its state in that context. A plain write is not reported.
//
//   cc rxm_half_a_write.c -lfabric && ./a.out
//
// Prints "survived" and ends with 0 where libfabric is right. Ends by SIGSEGV where it is not. With
// the argument "plain", it writes without immediate: that works.

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Much more than the kernel takes on the way between two sockets.
#define BYTES (64 << 20)

#define CHECK(call)                                                           \
  do {                                                                        \
    const long check_code = (call);                                           \
    if (check_code != 0) {                                                    \
      fprintf(stderr, "%s: %s\n", #call, fi_strerror((int)labs(check_code))); \
      exit(2);                                                                \
    }                                                                         \
  } while (0)

struct side {
  struct fid_domain* domain;
  struct fid_av* av;
  struct fid_cq* cq;
  struct fid_ep* endpoint;
  struct fid_mr* region;
  char* memory;
  char name[64];
  fi_addr_t peer;
};

static void open_side(struct fid_fabric* fabric, struct fi_info* info, struct side* side) {
  struct fi_av_attr av = {.type = FI_AV_TABLE};
  struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
  size_t length = sizeof(side->name);
  CHECK(fi_domain(fabric, info, &side->domain, NULL));
  CHECK(fi_av_open(side->domain, &av, &side->av, NULL));
  CHECK(fi_cq_open(side->domain, &cq, &side->cq, NULL));
  CHECK(fi_endpoint(side->domain, info, &side->endpoint, NULL));
  CHECK(fi_ep_bind(side->endpoint, &side->av->fid, 0));
  CHECK(fi_ep_bind(side->endpoint, &side->cq->fid, FI_TRANSMIT | FI_RECV));
  CHECK(fi_enable(side->endpoint));
  CHECK(fi_getname(&side->endpoint->fid, side->name, &length));
  side->memory = calloc(BYTES, 1);
  CHECK(
      fi_mr_reg(side->domain, side->memory, BYTES, FI_REMOTE_WRITE, 0, 1, 0, &side->region, NULL));
}

static void look(struct side* side) {
  struct fi_cq_data_entry entry;
  struct fi_cq_err_entry error = {0};
  if (fi_cq_read(side->cq, &entry, 1) == -FI_EAVAIL) fi_cq_readerr(side->cq, &error, 0);
}

int main(int argc, char** argv) {
  const int plain = argc > 1 && strcmp(argv[1], "plain") == 0;
  struct fi_info* hints = fi_allocinfo();
  struct fi_info* info;
  struct fid_fabric* fabric;
  struct fi_context2 context;
  static struct side writer, target;
  ssize_t code;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
  CHECK(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
  CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
  open_side(fabric, info, &writer);
  open_side(fabric, info, &target);
  if (fi_av_insert(writer.av, target.name, 1, &writer.peer, 0, NULL) != 1) return 2;
  memset(writer.memory, 1, BYTES);
  do {
    look(&writer);
    look(&target);
    code = plain
               ? fi_write(writer.endpoint, writer.memory, BYTES, NULL, writer.peer, 0, 1, &context)
               : fi_writedata(writer.endpoint, writer.memory, BYTES, NULL, 7, writer.peer, 0, 1,
                              &context);
  } while (code == -FI_EAGAIN);
  CHECK(code);
  while (*(volatile char*)target.memory == 0) {
    look(&writer);
    look(&target);
  }
  if (target.memory[BYTES - 1] != 0) {
    fprintf(stderr, "the write was placed whole at once\n");
    return 2;
  }
  CHECK(fi_close(&writer.endpoint->fid));
  for (int i = 0; i < 100000; ++i) look(&target);
  printf("survived\n");
  return 0;
}
