// A peer on libfabric's EFA provider that is removed from the address vector and inserted again,
// without any code of Invoker's.
//
// The provider forgets how many messages have gone each way, and the peer does not. The peer drops
// a message to it as a repeated one ("Packet already processed", 4104). A message from it waits for
// earlier ones that never come (prov/efa/src/rxr/rxr_cq.c, rxr_cq_reorder_msg; from 1.19 on
// prov/efa/src/rdm/efa_rdm_peer.c, efa_rdm_peer_reorder_msg).
//
//   cc efa_reinserted_peer.c -lfabric && ./a.out
//
// Prints "survived" and ends with 0 where libfabric is right. Says which messages were lost and
// ends by SIGABRT where it is not. With the argument "kept", the peer stays in the address vector:
// that works.

#include "efa_side.h"

static struct side self, peer;

// Whether a message arrives.
static int pass(struct side* from, struct side* to, fi_addr_t address) {
  static struct fi_context2 contexts[8];
  static struct fi_context2* context = contexts;
  const int sent = from->sent, received = to->received;
  ssize_t code;
  CHECK(fi_recv(to->endpoint, to->memory, 8, fi_mr_desc(to->region), FI_ADDR_UNSPEC, context++));
  do {
    look(&self);
    look(&peer);
    code = fi_send(from->endpoint, from->memory + 8, 8, fi_mr_desc(from->region), address, context);
  } while (code == -FI_EAGAIN);
  CHECK(code);
  ++context;
  // The card of the peer has the message when the sender is told that it is sent.
  for (int looks = 0; looks < LOOKS && to->received == received; looks += from->sent > sent) {
    look(&self);
    look(&peer);
  }
  return to->received > received;
}

int main(int argc, char** argv) {
  const int kept = argc > 1 && strcmp(argv[1], "kept") == 0;
  fi_addr_t to_peer, to_self;
  int there, back;
  choose("0", "0");
  open_side(&self, FI_SEND | FI_RECV);
  open_side(&peer, FI_SEND | FI_RECV);
  to_peer = meet(&self, peer.name);
  to_self = meet(&peer, self.name);
  if (!pass(&self, &peer, to_peer) || !pass(&peer, &self, to_self)) return 2;
  if (!kept) {
    CHECK(fi_av_remove(self.av, &to_peer, 1, 0));
    to_peer = meet(&self, peer.name);
  }
  there = pass(&self, &peer, to_peer);
  back = pass(&peer, &self, to_self);
  if (!there || !back) {
    printf("lost:%s%s the peer has %s\n", there ? "" : " the message to the peer,",
           back ? "" : " the message from the peer,", peer.failed ? peer.failure : "no event");
    fflush(stdout);
    abort();
  }
  printf("survived\n");
  return 0;
}
