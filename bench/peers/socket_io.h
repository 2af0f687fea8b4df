// Whole messages over a TCP socket, either blocking in the kernel or asking it over and over: what
// both ends of the socket ping-pong use.

#ifndef INVOKER_BENCH_PEERS_SOCKET_IO_H_
#define INVOKER_BENCH_PEERS_SOCKET_IO_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>

namespace invoker::bench {

// False if the connection has ended or failed (errno says how; 0: ended). `polls`: never sleeps.
inline bool ReceiveAll(int socket, char* data, size_t size, bool polls) {
  while (size > 0) {
    const ssize_t count = recv(socket, data, size, polls ? MSG_DONTWAIT : MSG_WAITALL);
    if (count > 0) {
      data += count;
      size -= static_cast<size_t>(count);
    } else if (count == 0) {
      errno = 0;
      return false;
    } else if (errno != EAGAIN && errno != EINTR) {
      return false;
    }
  }
  return true;
}

inline bool SendAll(int socket, const char* data, size_t size, bool polls) {
  while (size > 0) {
    const ssize_t count = send(socket, data, size, MSG_NOSIGNAL | (polls ? MSG_DONTWAIT : 0));
    if (count > 0) {
      data += count;
      size -= static_cast<size_t>(count);
    } else if (count < 0 && errno != EAGAIN && errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PEERS_SOCKET_IO_H_
