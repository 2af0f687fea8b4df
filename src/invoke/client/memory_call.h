// A call whose input or output is memory of the caller's.

#ifndef INVOKER_SRC_INVOKE_CLIENT_MEMORY_CALL_H_
#define INVOKER_SRC_INVOKE_CLIENT_MEMORY_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "invoker/client.h"
#include "invoker/client_options.h"
#include "invoker/registered_window.h"
#include "invoker/response.h"
#include "src/invoke/session/call_deadline.h"
#include "src/invoke/session/client_session.h"

namespace invoker {

class CallDriver;
struct WindowUse;

// Make, then start `request()`, then Started, then Finish once with the call's result. The windows
// that it has registered go with it, or in Finish.
class MemoryCall {
 public:
  // Registers what does not fit in the session's windows. Blocks for a round trip to the server if
  // there is any. Errors are NOT_SENT.
  static absl::StatusOr<std::unique_ptr<MemoryCall>> Make(Client* client,
                                                          const RemoteFunction& function,
                                                          const CallInput& input,
                                                          const CallOptions& options);

  const ClientSession::Request& request() const { return request_; }

  // The call has been started, or could not be.
  void Started();

  // What the caller gets for the session's response. Takes back the memory that was registered for
  // this call, which blocks for a round trip to the server.
  absl::StatusOr<Response> Finish(absl::StatusOr<Response> response);

 private:
  explicit MemoryCall(std::shared_ptr<CallDriver> driver) : driver_(std::move(driver)) {}

  absl::Status Prepare(Client* client, const RemoteFunction& function, const CallInput& input,
                       CallOptions options);
  absl::Status PlaceOutput(Client* client, const CallDeadline& deadline, CallOptions* options);
  absl::Status PlaceInput(Client* client, const CallInput& input, const CallDeadline& deadline);
  absl::Status WriteAside(const CallInput& input);
  absl::Status MakeWithWindows(const RemoteFunction& function, const CallOptions& options);
  absl::Status CheckWindow(const RegisteredWindow& window) const;
  void LendWindows();
  absl::StatusOr<Response> ViewOfOutput(const Response& response) const;

  const std::shared_ptr<CallDriver> driver_;
  Bytes bytes_;                         // the input, unless it is in a window
  std::unique_ptr<std::byte[]> whole_;  // where it is, if it has been put together for this call
  const RegisteredWindow* input_window_ = nullptr;
  uint64_t input_offset_ = 0;
  uint64_t input_length_ = 0;
  CallOutput output_;
  std::optional<RegisteredWindow> own_input_;   // registered for this call
  std::optional<RegisteredWindow> own_output_;  // the same
  ClientSession::Request request_;
  std::vector<std::byte> payload_;  // the request's input, if any window is named
  std::shared_ptr<WindowUse> use_;  // nullptr: no window is named
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_MEMORY_CALL_H_
