// Peers of one host on libfabric's EFA provider, with its shm transfer, without any code of
// Invoker's.
//
// A peer leaves before the receiver has looked at its last message. The receiver removes it from the
// address vector, and inserts another peer. Up to libfabric 1.18 the second peer gets the number
// that the first had in shm, and the provider takes the first one's message for one of the second's
// (1.17: prov/efa/src/efa_av.c, efa_conn_rdm_deinit; prov/efa/src/rxr/rxr_ep.c, rdm_ep_poll_shm_cq).
// It then drops a message of the second peer as a repeated one ("Packet already processed", 4104).
//
//   cc efa_shm_peers.c -lfabric && ./a.out
//
// Prints "survived" and ends with 0 where libfabric is right. Says which message was lost and ends
// by SIGABRT where it is not. With the argument "looked", the receiver looks at the last message
// before it removes the peer: that works.

#include <sys/socket.h>
#include <sys/wait.h>

#include "efa_side.h"

#define MESSAGES 4

static void tell(int socket, const void* bytes, size_t length) {
  if (send(socket, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) exit(2);
}

static void hear(int socket, void* bytes, size_t length) {
  if (recv(socket, bytes, length, MSG_WAITALL) != (ssize_t)length) exit(2);
}

// Sends one byte.
static void say(struct side* from, fi_addr_t to, char number) {
  static struct fi_context2 contexts[MESSAGES + 1];
  const int sent = from->sent;
  ssize_t code;
  from->memory[0] = number;
  do {
    look(from);
    code = fi_send(from->endpoint, from->memory, 1, fi_mr_desc(from->region), to,
                   &contexts[(int)number]);
  } while (code == -FI_EAGAIN);
  CHECK(code);
  while (from->sent == sent) look(from);
}

// Two peers. The first sends messages 1 and 2, and leaves. The second sends 3 and 4.
static int peers(int socket) {
  static struct side sides[2];
  fi_addr_t to[2];
  char name[64], go;
  hear(socket, name, sizeof(name));
  for (int i = 0; i < 2; ++i) {
    open_side(&sides[i], FI_SEND | FI_RECV);
    to[i] = meet(&sides[i], name);
    tell(socket, sides[i].name, sizeof(sides[i].name));
  }
  hear(socket, &go, 1);
  say(&sides[0], to[0], 1);
  hear(socket, &go, 1);
  say(&sides[0], to[0], 2);
  CHECK(fi_close(&sides[0].endpoint->fid));
  tell(socket, "", 1);
  hear(socket, &go, 1);
  say(&sides[1], to[1], 3);
  say(&sides[1], to[1], 4);
  tell(socket, "", 1);
  // Until the receiver closes its end.
  while (recv(socket, &go, 1, MSG_DONTWAIT) != 0) look(&sides[1]);
  CHECK(fi_close(&sides[1].endpoint->fid));
  return 0;
}

static struct side receiver;

static int heard(char number) { return memchr(receiver.memory, number, MESSAGES) != NULL; }

int main(int argc, char** argv) {
  const int looked = argc > 1 && strcmp(argv[1], "looked") == 0;
  static struct fi_context2 contexts[MESSAGES];
  fi_addr_t addresses[2];
  char names[2][64], done;
  int sockets[2], lost;
  pid_t pid;
  choose("0", "1");
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
  pid = fork();
  if (pid == 0) {
    close(sockets[0]);
    return peers(sockets[1]);
  }
  close(sockets[1]);
  open_side(&receiver, FI_SEND | FI_RECV);
  tell(sockets[0], receiver.name, sizeof(receiver.name));
  hear(sockets[0], names, sizeof(names));
  for (int i = 0; i < MESSAGES; ++i) {
    CHECK(fi_recv(receiver.endpoint, receiver.memory + i, 1, fi_mr_desc(receiver.region),
                  FI_ADDR_UNSPEC, &contexts[i]));
  }
  addresses[0] = meet(&receiver, names[0]);
  tell(sockets[0], "", 1);
  while (!heard(1)) look(&receiver);
  tell(sockets[0], "", 1);
  hear(sockets[0], &done, 1);
  while (looked && !heard(2)) look(&receiver);
  CHECK(fi_av_remove(receiver.av, &addresses[0], 1, 0));
  addresses[1] = meet(&receiver, names[1]);
  tell(sockets[0], "", 1);
  while (recv(sockets[0], &done, 1, MSG_DONTWAIT) != 1) look(&receiver);
  for (int looks = 0; looks < LOOKS && !(heard(3) && heard(4)); ++looks) look(&receiver);
  lost = !heard(3) ? 3 : !heard(4) ? 4 : 0;
  CHECK(fi_close(&receiver.endpoint->fid));
  close(sockets[0]);
  waitpid(pid, NULL, 0);
  if (lost) {
    printf("lost: message %d, which the second peer sent; the receiver has %s\n", lost,
           receiver.failed ? receiver.failure : "no event");
    fflush(stdout);
    abort();
  }
  printf("survived\n");
  return 0;
}
