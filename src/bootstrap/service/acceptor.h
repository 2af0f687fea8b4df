// A server's listening socket: accepts connections on a thread of its own, as many as may be, and
// hands each to gRPC.
//
// gRPC's own listener knows no limit: it takes connections until the process has no descriptor
// left, and then, as of 1.51, never accepts again. This one closes what is too many at once, and is
// there again as soon as there is room. Any thread; Stop once.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_ACCEPTOR_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_ACCEPTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/bootstrap/service/connection_table.h"

namespace invoker::bootstrap {

struct AcceptorCounters {
  uint64_t too_many = 0;         // closed: the total had been reached
  uint64_t too_many_of_one = 0;  // closed: its source had as many as one may have
  uint64_t no_descriptor = 0;    // closed: the process had no descriptor left
};

class Acceptor {
 public:
  // Takes over `fd`, which does not block. On the acceptor's thread.
  using Take = std::function<void(int fd)>;

  // Listens at a numeric address; port 0 picks a free one. What is for all interfaces is for those
  // of IPv6 as well, where the system allows it. Errors as ResolveListenAddress's. `user_timeout`:
  // a connection whose other end acknowledges nothing for so long is over.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const HostPort& address,
                                                          const ConnectionLimits& limits,
                                                          absl::Duration user_timeout);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  uint16_t port() const { return port_; }

  // From now on; what came since Listen has waited.
  void Start(Take take);
  // `take` is not called any more, and nobody listens.
  void Stop();

  AcceptorCounters counters() const;

 private:
  Acceptor(int fd, int stop_fd, int spare_fd, uint16_t port, const ConnectionLimits& limits,
           absl::Duration user_timeout);

  void Run();
  // False: nothing is there to be accepted.
  bool AcceptOne();
  // There is no descriptor: closes one connection that waits, with the one that is kept for this.
  // False if not even that could be done.
  bool TurnOneAway();

  int fd_;
  const int stop_fd_;  // readable: the thread is to end
  int spare_fd_;       // only there to be closed; -1: none was to be had
  const uint16_t port_;
  const int user_timeout_ms_;
  ConnectionTable table_;  // the thread's
  Take take_;
  std::atomic<uint64_t> too_many_{0};
  std::atomic<uint64_t> too_many_of_one_{0};
  std::atomic<uint64_t> no_descriptor_{0};
  std::thread thread_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_ACCEPTOR_H_
