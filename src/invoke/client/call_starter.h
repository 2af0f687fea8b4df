// Starts calls for code that has to know whether a call could be started: groups, and Python.

#ifndef INVOKER_SRC_INVOKE_CLIENT_CALL_STARTER_H_
#define INVOKER_SRC_INVOKE_CLIENT_CALL_STARTER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "invoker/client.h"
#include "src/invoke/session/client_session.h"
#include "src/invoke/wire/store_request.h"

namespace invoker {

class CallStarter {
 public:
  // Client::InvokeAsync. An error says why the call cannot start.
  static absl::StatusOr<Future> Start(Client& client, const RemoteFunction& function,
                                      const CallInput& input, const CallOptions& options);
  // The same with a callback. After an error `done` has not been taken, and is not called. `ticket`
  // is set before `done` can be called. `comes_back`: see CallDriver::StartWithCallback.
  static absl::Status Start(Client& client, const RemoteFunction& function, const CallInput& input,
                            const CallOptions& options, CallDone& done,
                            CallTicket* ticket = nullptr, bool comes_back = false);
  // The same for requests to the executor's data store.
  static absl::StatusOr<Future> StartStore(Client& client, StoreOperation operation,
                                           const CallInput& input, const CallOptions& options);
  static absl::Status StartStore(Client& client, StoreOperation operation, const CallInput& input,
                                 const CallOptions& options, CallDone& done);
  // What drives a client's calls, for those that come back.
  static CallDriver& DriverOf(Client& client) { return *client.driver_; }
  // Future::Cancel, for a call that Start has started with a callback.
  static bool Cancel(Client& client, const CallTicket& ticket);

  // INVALID_ARGUMENT for a call whose input or output belongs to one client.
  static absl::Status CheckForAnyClient(const CallInput& input, const CallOptions& options);
  // Whether such a call uses memory of the caller's until it has ended, if this client makes it.
  static bool UsesCallersMemory(const Client& client, const CallInput& input,
                                const CallOptions& options);
  // The bytes of such a call's input.
  static std::string CopyOf(const CallInput& input);

 private:
  static absl::Status Make(Client& client, const RemoteFunction& function, const CallInput& input,
                           const CallOptions& options, ClientSession::Request* request,
                           std::unique_ptr<MemoryCall>* memory);
  static absl::Status MakeStore(Client& client, StoreOperation operation, const CallInput& input,
                                const CallOptions& options, ClientSession::Request* request,
                                std::unique_ptr<MemoryCall>* memory);
  static absl::StatusOr<Future> Start(Client& client, const ClientSession::Request& request,
                                      std::unique_ptr<MemoryCall> memory);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_CALL_STARTER_H_
