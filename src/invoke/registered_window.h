// Payloads larger than a session's windows: memory of the caller's own, which the executor reads
// and writes itself.
//
//   absl::StatusOr<invoker::RegisteredWindow> window =
//       client->RegisterWindow(array.data(), array_bytes, invoker::WindowAccess::kRead);
//   absl::StatusOr<invoker::Response> total = client->Invoke(*sum, {*window, 0, array_bytes});
//
// The bytes cross the fabric once in each direction, without a copy on the caller's side. While a
// call is under way the memory that it names is the call's: the input stays as it is, the output is
// not looked at. A call that has failed may have written some of the output.
//
// Client::Invoke takes an input, and CallOptions::output memory, of any size, and registers for the
// call what does not fit in the session's windows. Registering takes a round trip to the server,
// and on fabrics that pin memory some time for every megabyte, so memory that is used again is
// better kept in a RegisteredWindow. The timeout of a call includes the time to register; a worker
// that is slow to answer is given a second. A call that ends while its bytes are under way ends
// when they are, after 10 s at most, and then with the session.

#ifndef INVOKER_SRC_INVOKE_REGISTERED_WINDOW_H_
#define INVOKER_SRC_INVOKE_REGISTERED_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "invoker/export.h"

namespace invoker {

// What the executor may do with the memory.
enum class WindowAccess : uint8_t { kRead, kWrite, kReadWrite };

// Memory that the executor of one client's session has access to, for as long as this lives.
// Movable. Any number of calls, of any threads, may use it at the same time.
class INVOKER_EXPORT RegisteredWindow {
 public:
  RegisteredWindow(RegisteredWindow&& other) noexcept;
  RegisteredWindow& operator=(RegisteredWindow&& other) noexcept;
  // From here on nobody but the caller has access to the memory. Blocks for a round trip to the
  // server, and not for the calls that name the window, such as those that ended at a deadline:
  // they end at the worker as if the window had never been. Transfers that are under way end first;
  // if they do not within kForgetLimit, the session ends. No other thread may be inside a call with
  // it. May outlive the client's Close, not a Close that is under way.
  //
  // Where a peer writes by itself, keys or not (docs/design/libfabric.md), and was stopped between
  // two instructions until the session had been lost, it may write once more when it goes on, to
  // where the memory was.
  ~RegisteredWindow();

  std::byte* data() const;
  size_t size() const;
  WindowAccess access() const;

  static constexpr absl::Duration kForgetLimit = absl::Seconds(10);

 private:
  friend class Client;
  friend class MemoryCall;
  struct State;
  explicit RegisteredWindow(std::unique_ptr<State> state);

  bool TakeBack();

  std::unique_ptr<State> state_;  // nullptr once moved from
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_REGISTERED_WINDOW_H_
