// Starts calls for code that keeps its callback when a call cannot start: groups, and Python.

#ifndef INVOKER_SRC_INVOKE_CLIENT_CALL_STARTER_H_
#define INVOKER_SRC_INVOKE_CLIENT_CALL_STARTER_H_

#include "absl/status/status.h"
#include "invoker/client.h"
#include "src/invoke/session/client_session.h"

namespace invoker {

class CallStarter {
 public:
  // Client::InvokeAsync for an input that fits in the request window, and is copied before this
  // returns. An error says why the call cannot start: `done` has not been taken then, and is not
  // called. `ticket` is set before `done` can be called.
  static absl::Status Start(Client& client, const RemoteFunction& function, const CallInput& input,
                            const CallOptions& options, CallDone& done,
                            CallTicket* ticket = nullptr);
  // Future::Cancel, for a call that Start has started.
  static bool Cancel(Client& client, const CallTicket& ticket);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_CALL_STARTER_H_
