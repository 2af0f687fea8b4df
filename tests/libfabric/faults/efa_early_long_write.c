// A long write on libfabric's EFA provider that is posted before the peer's handshake has come,
// without any code of Invoker's.
//
// The card does not read. Up to libfabric 1.18 the provider asks whether both cards read, takes the
// answer "not known yet" for "yes", and asks the peer to read the bytes
// (prov/efa/src/rxr/rxr_rma.c, rxr_rma_post_write; prov/efa/src/rxr/rxr_ep.c,
// rxr_ep_determine_rdma_support). The peer's card refuses ("Error posting RDMA read request", 4117).
// The writer never hears of it. From 1.19 on the write waits for the handshake.
//
// The target sends one message first, over the card. Until then the provider expects a peer of its
// own host behind shm, and asks nothing. A peer of another host need not send one.
//
//   cc efa_early_long_write.c -lfabric && ./a.out
//
// Prints "survived" and ends with 0 where libfabric is right. Says that the write was lost and ends
// by SIGABRT where it is not. With the argument "shorter", the write has one byte less: that works.
// With the argument "later", the handshake comes first: that works.

#include "efa_side.h"

// FI_EFA_INTER_MIN_READ_WRITE_SIZE: from so many bytes on, a peer is asked to read.
#define LONG 65536

static struct side writer, target;

static ssize_t post(fi_addr_t to, size_t length) {
  static struct fi_context2 context;
  return fi_write(writer.endpoint, writer.memory, length, fi_mr_desc(writer.region), to,
                  (uintptr_t)target.memory, fi_mr_key(target.region), &context);
}

static void look_at_both(void) {
  look(&writer);
  look(&target);
}

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "";
  const size_t length = strcmp(how, "shorter") == 0 ? LONG - 1 : LONG;
  static struct fi_context2 contexts[2];
  fi_addr_t to_target, to_writer;
  ssize_t code;
  choose("0", "0");
  open_side(&writer, FI_SEND | FI_RECV | FI_WRITE);
  open_side(&target, FI_SEND | FI_RECV | FI_REMOTE_WRITE);
  to_target = meet(&writer, target.name);
  to_writer = meet(&target, writer.name);
  memset(writer.memory, 1, length);
  CHECK(fi_recv(writer.endpoint, writer.memory + LONG, 8, fi_mr_desc(writer.region), FI_ADDR_UNSPEC,
                &contexts[0]));
  look(&writer);
  CHECK(fi_send(target.endpoint, target.memory + LONG, 8, fi_mr_desc(target.region), to_writer,
                &contexts[1]));
  // The target does not look, and so does not take the writer's packets.
  while (writer.received == 0) look(&writer);
  if (strcmp(how, "later") == 0) {
    for (int looks = 0; looks < LOOKS; looks += target.sent) look_at_both();
  }
  while ((code = post(to_target, length)) == -FI_EAGAIN) look_at_both();
  CHECK(code);
  while (writer.written == 0 || target.memory[length - 1] == 0) {
    look_at_both();
    if (writer.failed || target.failed) {
      printf("lost: the write of %zu bytes; the writer has %s, the target has %s\n", length,
             writer.failed ? writer.failure : "no news", target.failed ? target.failure : "no news");
      fflush(stdout);
      abort();
    }
  }
  printf("survived\n");
  return 0;
}
