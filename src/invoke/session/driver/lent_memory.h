// Whether the worker may still write to this side's memory after a session has failed. Under the
// turn lock.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_LENT_MEMORY_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_LENT_MEMORY_H_

#include "src/invoke/session/client_session.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class LentMemory {
 public:
  // The session is about to fail. Answers to its requests may be under way.
  void SessionFails(const ClientSession& session, const transport::Reactor& reactor) {
    if (!session.answered() || reactor.operations().outstanding() > 0) quiet_ = false;
  }

  // Whether Settle has nothing to do.
  bool settled(const transport::Reactor& reactor) const {
    return settled_ || reactor.endpoint_quarantined();
  }
  // The session has failed and lent memory is about to be taken back: waits until the worker has
  // ended what it had begun to write. If the worker neither goes on nor goes away, `reactor` is
  // never driven again. Only for the driver. Blocks for up to 150 ms.
  void Settle(ClientSession* session, transport::Reactor* reactor);

  // Polls for a while. Where a target takes part in transfers by polling, its queue is empty then.
  static void LetTransfersEnd(transport::Reactor* reactor);

  // Whether nothing of the worker's is under way to this side. True before a session fails.
  bool quiet() const { return quiet_; }

 private:
  bool quiet_ = true;
  bool settled_ = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_LENT_MEMORY_H_
