// One end of a connection between two queue pairs. It never blocks: what the socket does not take
// waits here.

#ifndef INVOKER_TESTS_EFA_DEVICE_CONNECTION_H_
#define INVOKER_TESTS_EFA_DEVICE_CONNECTION_H_

#include <deque>
#include <string>
#include <vector>

#include "tests/efa_device/frame.h"
#include "tests/efa_device/queue_pair.h"
#include "tests/efa_device/shuffler.h"

namespace efa_device {

class Connection {
 public:
  // Takes the non-blocking socket. `to` is the peer if this end sent for it, otherwise not used.
  Connection(int socket, uint32_t qpn, bool outgoing, const Peer& to, const Faults::Stream& faults)
      : socket_(socket), qpn_(qpn), outgoing_(outgoing), to_(to), shuffler_(faults) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_; }
  uint32_t qpn() const { return qpn_; }  // this end's
  bool outgoing() const { return outgoing_; }
  const Peer& to() const { return to_; }

  // Each false if the connection is broken.
  bool Send(const Frame& frame);
  bool SendDue();   // what the shuffler held back
  bool SendMore();  // the socket has room again

  // Takes what has arrived, at most some frames. False at the end of the connection; what came
  // before it is in `frames` all the same.
  bool Receive(std::vector<Frame>* frames);

  bool waits_for_room() const { return !waiting_.empty(); }
  // True if waits_for_room() is not what it was at the last call.
  bool RoomWatchChanges();
  bool idle() const { return waiting_.empty() && shuffler_.empty(); }
  const Shuffler& shuffler() const { return shuffler_; }

 private:
  const int socket_;
  const uint32_t qpn_;
  const bool outgoing_;
  const Peer to_;
  Shuffler shuffler_;
  std::deque<std::string> waiting_;
  bool room_watched_ = false;
};

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_CONNECTION_H_
