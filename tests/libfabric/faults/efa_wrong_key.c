// A peer on libfabric's EFA provider that writes with a key that the target does not have, without
// any code of Invoker's.
//
// The card has no RDMA write, so the write goes by messages. The target looks for the region that
// has the key, does not find it, and reads through a pointer that nothing has set
// (prov/efa/src/rxr/rxr_rma.c, rxr_rma_verified_copy_iov; from 1.19 on
// prov/efa/src/rdm/efa_rdm_rma.c, efa_rdm_rma_verified_copy_iov). It depends on the stack whether
// that ends the process. If it does not, the target gets an event, and lives. So the writer writes
// often, long and short. An event queue does not help. 1.19.0 and 1.22.0 survived, and their source
// has the fault.
//
//   cc efa_wrong_key.c -lfabric && ./a.out
//
// Prints "survived" and ends with 0 where libfabric is right. Ends as the target does where it is
// not. With the argument "right", the writer has the target's key: that works.

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "efa_side.h"

#define WRITES 200

// More than one packet, and one.
static const size_t lengths[] = {16384, 8};

struct introduction {
  char name[64];
  uint64_t address, key;
};

static int target(int socket) {
  static struct side side;
  struct introduction self;
  int told = 0;
  char writer[64], ignored;
  open_side(&side, FI_SEND | FI_RECV | FI_REMOTE_WRITE);
  memcpy(self.name, side.name, sizeof(self.name));
  self.address = (uintptr_t)side.memory;
  self.key = fi_mr_key(side.region);
  if (send(socket, &self, sizeof(self), 0) != sizeof(self)) return 2;
  if (recv(socket, writer, sizeof(writer), MSG_WAITALL) != sizeof(writer)) return 2;
  meet(&side, writer);
  // Until the writer closes its end.
  while (recv(socket, &ignored, 1, MSG_DONTWAIT) != 0) {
    look(&side);
    for (; told < side.failed; ++told) send(socket, "", 1, MSG_NOSIGNAL);
  }
  return 0;
}

// Ends as the target did.
static int target_ended(pid_t pid, int writes) {
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFSIGNALED(status)) {
    printf("the target ended with status %d\n", WEXITSTATUS(status));
    return 2;
  }
  printf("write %d ended the target by signal %d\n", writes, WTERMSIG(status));
  fflush(stdout);
  signal(WTERMSIG(status), SIG_DFL);
  raise(WTERMSIG(status));
  return 2;
}

int main(int argc, char** argv) {
  const int right = argc > 1 && strcmp(argv[1], "right") == 0;
  static struct side writer;
  static struct fi_context2 contexts[WRITES];
  struct introduction other;
  int sockets[2];
  pid_t pid;
  fi_addr_t to;
  choose("0", "0");
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
  pid = fork();
  if (pid == 0) {
    close(sockets[0]);
    return target(sockets[1]);
  }
  close(sockets[1]);
  if (recv(sockets[0], &other, sizeof(other), MSG_WAITALL) != sizeof(other)) return 2;
  open_side(&writer, FI_SEND | FI_RECV | FI_WRITE);
  to = meet(&writer, other.name);
  if (send(sockets[0], writer.name, sizeof(writer.name), MSG_NOSIGNAL) < 0) return 2;
  for (int writes = 0, refused = 0; writes < WRITES; ++writes) {
    ssize_t code;
    do {
      look(&writer);
      code = fi_write(writer.endpoint, writer.memory, lengths[writes % 2],
                      fi_mr_desc(writer.region), to, other.address, other.key + !right,
                      &contexts[writes]);
    } while (code == -FI_EAGAIN);
    CHECK(code);
    while ((right ? writer.written : refused + writer.failed) <= writes) {
      char event;
      const ssize_t length = recv(sockets[0], &event, 1, MSG_DONTWAIT);
      if (length > 0) ++refused;
      if (length == 0 || (length < 0 && errno == ECONNRESET)) return target_ended(pid, writes + 1);
      look(&writer);
    }
  }
  close(sockets[0]);
  waitpid(pid, NULL, 0);
  printf("survived\n");
  return 0;
}
