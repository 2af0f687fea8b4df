// Two endpoints of one process on libfabric's shm provider, without any code of Invoker's.
//
// The first endpoint sends one message to the second, and so introduces itself. Then the second
// sends one with FI_DELIVERY_COMPLETE. From libfabric 2.5 on, the first endpoint follows a null
// pointer when it takes that (SIGSEGV in smr_ep_progress): prov/shm/src/smr_av.c,
// smr_map_to_region() returns early for an endpoint of its own process, and nothing sets the
// sender's local_region, from which the sender calculates where the receiver finds the command.
//
//   cc shm_two_endpoints.c -lfabric && ./a.out
//
// Prints "delivered" and ends with 0 where libfabric is right. Ends by SIGSEGV where it is not.
// With the argument "introduced", both endpoints introduce themselves before either looks: that
// works.
//
// With the argument "removed" they do so, too, and then the second endpoint closes, and the first
// removes it from its address vector. From libfabric 2.0 on, that ends by SIGSEGV in
// smr_unmap_from_endpoint(): the first knows the second by the second's own mapping, which the
// close has unmapped, and writes to it.
//
// With the argument "unfinished" they do so, too, and the second closes when it has taken the first
// one's message, before the first looks. Then the first ends by SIGSEGV in smr_progress_resp_entry()
// of libfabric 1.17, which gives the message's buffer back to the second one's mapping.

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  char name[256];
  fi_addr_t peer;
  char text[64];
  struct fi_context2 contexts[2];
  int sent, received;
};

static void open_side(struct fid_fabric* fabric, struct fi_info* info, struct side* side) {
  struct fi_av_attr av = {.type = FI_AV_TABLE};
  struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
  size_t length = sizeof(side->name);
  CHECK(fi_domain(fabric, info, &side->domain, NULL));
  CHECK(fi_av_open(side->domain, &av, &side->av, NULL));
  CHECK(fi_cq_open(side->domain, &cq, &side->cq, NULL));
  CHECK(fi_endpoint(side->domain, info, &side->endpoint, NULL));
  CHECK(fi_ep_bind(side->endpoint, &side->av->fid, 0));
  CHECK(fi_ep_bind(side->endpoint, &side->cq->fid, FI_TRANSMIT | FI_RECV));
  CHECK(fi_enable(side->endpoint));
  CHECK(fi_getname(&side->endpoint->fid, side->name, &length));
  CHECK(fi_recv(side->endpoint, side->text, sizeof(side->text), NULL, FI_ADDR_UNSPEC,
                &side->contexts[0]));
}

static void meet(struct side* side, const struct side* other) {
  if (fi_av_insert(side->av, other->name, 1, &side->peer, 0, NULL) != 1) exit(2);
}

static void look(struct side* side) {
  struct fi_cq_msg_entry entry;
  const ssize_t count = fi_cq_read(side->cq, &entry, 1);
  if (count == 1 && (entry.flags & FI_RECV)) ++side->received;
  if (count == 1 && (entry.flags & FI_SEND)) ++side->sent;
  if (count < 0 && count != -FI_EAGAIN) exit(2);
}

// One message, with FI_DELIVERY_COMPLETE.
static ssize_t post(struct side* side) {
  static char text[64] = "hello";
  struct iovec part = {text, sizeof(text)};
  struct fi_msg message = {
      .msg_iov = &part, .iov_count = 1, .addr = side->peer, .context = &side->contexts[1]};
  return fi_sendmsg(side->endpoint, &message, FI_DELIVERY_COMPLETE);
}

static void post_to(struct side* from, struct side* to) {
  ssize_t code;
  while ((code = post(from)) == -FI_EAGAIN) {
    look(from);
    look(to);
  }
  CHECK(code);
}

static void send_to(struct side* from, struct side* to) {
  post_to(from, to);
  while (from->sent == 0 || to->received == 0) {
    look(from);
    look(to);
  }
}

int main(int argc, char** argv) {
  struct fi_info* hints = fi_allocinfo();
  struct fi_info* info;
  struct fid_fabric* fabric;
  static struct side first, second;
  hints->caps = FI_MSG;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->fabric_attr->prov_name = strdup("shm");
  CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
  CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
  open_side(fabric, info, &first);
  open_side(fabric, info, &second);
  meet(&first, &second);
  meet(&second, &first);
  const char* const how = argc > 1 ? argv[1] : "";
  if (strcmp(how, "") != 0 && (post(&first) != -FI_EAGAIN || post(&second) != -FI_EAGAIN)) return 2;
  if (strcmp(how, "unfinished") == 0) {
    post_to(&first, &second);
    while (second.received == 0) look(&second);
    CHECK(fi_close(&second.endpoint->fid));
    for (int i = 0; i < 1000; ++i) look(&first);
    CHECK(fi_close(&first.endpoint->fid));
    return 0;
  }
  send_to(&first, &second);
  send_to(&second, &first);
  printf("delivered\n");
  CHECK(fi_close(&second.endpoint->fid));
  if (strcmp(how, "removed") == 0) CHECK(fi_av_remove(first.av, &first.peer, 1, 0));
  CHECK(fi_close(&first.endpoint->fid));
  return 0;
}
