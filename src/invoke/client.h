// Calling functions on a worker.
//
//   invoker::ClientOptions options;
//   options.credentials.plaintext = true;
//   auto client = invoker::Client::Connect("10.0.0.7:7000", options);
//   using Array = invoker::ArrayView<const double>;
//   auto dot = (*client)->Function<double(Array, Array)>("dot");
//   std::vector<double> a = {1, 2, 3};
//   absl::StatusOr<double> product = (*dot)(a, a);
//
//   auto echo = (*client)->Function("echo");  // of bytes
//   absl::StatusOr<invoker::Response> response = (*client)->Invoke(*echo, "hello");
//   if (response.ok()) std::cout << response->text();
//
// A Client is one session with one executor of the worker. All of its methods may be called from
// any thread. A blocking call polls the fabric on the calling thread, so it needs no other thread;
// asynchronous calls are driven by a helper thread while nobody waits.
//
// Calls are at-most-once and never retried. GetCallFate(status) tells what became of a call that
// failed. A session that is lost stays so, and so does its client: every call under way ends with
// UNAVAILABLE within ClientOptions::peer_timeout, and further ones are NOT_SENT. What connects
// again is a ClientGroup (client_group.h), also one of a single server.

#ifndef INVOKER_SRC_INVOKE_CLIENT_H_
#define INVOKER_SRC_INVOKE_CLIENT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "invoker/call_fate.h"
#include "invoker/client_options.h"
#include "invoker/data_auth.h"
#include "invoker/export.h"
#include "invoker/notification.h"
#include "invoker/registered_window.h"
#include "invoker/response.h"
#include "invoker/typed_call.h"

namespace invoker {

class CallDriver;
class Connection;
class MemoryCall;
struct Call;

// A function of the worker, by name and id. A value; valid for the client that returned it.
class INVOKER_EXPORT RemoteFunction {
 public:
  const std::string& name() const { return name_; }
  uint16_t id() const { return id_; }
  // What its arguments and its result are, "(f64[:], str) -> bool"; empty: bytes.
  const std::string& signature() const { return signature_; }

 private:
  friend class CallStarter;
  friend class Client;
  RemoteFunction(std::string name, uint16_t id, std::string signature)
      : name_(std::move(name)), id_(id), signature_(std::move(signature)) {}

  std::string name_;
  uint16_t id_;
  std::string signature_;
};

// A call under way. Movable; one thread at a time.
class INVOKER_EXPORT Future {
 public:
  Future(Future&& other) noexcept;
  Future& operator=(Future&& other) noexcept;
  // Abandons the result, not the call. Waits for a call whose input or output is memory that was
  // registered for it alone: afterwards nobody but the caller has access to that memory.
  ~Future();

  // Blocks until the call has ended, and returns its result. FAILED_PRECONDITION the second time,
  // and for a call with a CallDone, which gets the result.
  absl::StatusOr<Response> Get();

  // Blocks until the call has ended or `limit` has passed. True if Get would not block. With a
  // limit of zero it looks once whether something has come, for all calls of the session, so that a
  // loop that does nothing else still makes progress; it runs no callbacks.
  bool Wait(absl::Duration limit);

  // Ends the call as CANCELLED, unless it has ended; true if so. A request that has not left is
  // NOT_SENT and will not be executed. Any other is MAYBE_EXECUTED: the worker is told, and does
  // not begin with it if it has not yet; a function that runs already may ask
  // (docs/guide/functions.md). A CallDone of this call, and of others that have ended, may run
  // inside. For a call with a CallDone: only while its client is open.
  bool Cancel();

 private:
  friend class CallStarter;
  friend class Client;
  Future(CallDriver* driver, Call* call, std::unique_ptr<MemoryCall> memory);
  // For a call with a CallDone.
  Future(CallDriver* driver, Call* call, uint64_t sequence);
  explicit Future(absl::Status status);

  CallDriver* driver_ = nullptr;  // lives as long as any call that is not given back
  Call* call_ = nullptr;          // nullptr: taken, or it has never started
  uint64_t sequence_ = 0;         // a call's with a CallDone, which others may give back
  bool has_callback_ = false;
  absl::Status status_;                 // why it has never started
  std::unique_ptr<MemoryCall> memory_;  // nullptr: all of it is in the session's windows
};

// Memory in the request window: a request that is built here is sent without a copy. The bytes
// behind `data()` may be changed whenever no call with this buffer is under way. One call at a
// time. May outlive the client. A call that has been started keeps the memory, so the buffer itself
// may go.
class INVOKER_EXPORT Buffer {
 public:
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  absl::Span<std::byte> data() const { return data_; }
  size_t size() const { return data_.size(); }

 private:
  friend class Client;
  friend class RequestMaker;
  Buffer(std::shared_ptr<CallDriver> driver, HeldCells cells, size_t size);

  std::shared_ptr<CallDriver> driver_;
  HeldCells cells_;
  absl::Span<std::byte> data_;
  std::unique_ptr<bool> busy_;  // under the driver's turn lock
};

// What a call sends: bytes of any size, text, bytes in several places, a Buffer's first bytes, or a
// piece of a RegisteredWindow. It only points there.
//
// Bytes and text are copied into the request window before Invoke or InvokeAsync returns. Bytes
// that do not fit there are registered for the call alone, and stay the call's until it has ended;
// see registered_window.h for what that costs.
class CallInput {
 public:
  // None of these is explicit, so that a call reads Invoke(function, "hello").
  CallInput() = default;
  CallInput(Bytes bytes) : bytes_(bytes) {}
  CallInput(absl::Span<std::byte> bytes) : bytes_(bytes) {}
  CallInput(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
  CallInput(absl::string_view text) : CallInput(text.data(), text.size()) {}
  CallInput(const std::string& text) : CallInput(text.data(), text.size()) {}
  CallInput(const char* text) : CallInput(absl::string_view(text)) {}
  CallInput(const void* data, size_t size) : bytes_(static_cast<const std::byte*>(data), size) {}
  // The bytes of all parts, one after the other. They are put together in the request window, or,
  // where that is too small, in memory of the call's own.
  CallInput(absl::Span<const Bytes> parts)
      : CallInput(SizeOf(parts), {&WriteParts, parts.data(), parts.size()}) {}
  // What `write` writes at the std::byte* that it is called with: `size` bytes. It lives until
  // Invoke or InvokeAsync returns, and is called when the request is put together, which is more
  // than once where a group's call is tried again. The client's lock is held then: it must neither
  // block nor use the client nor throw.
  template <typename Write>
  static CallInput WrittenBy(const Write& write, size_t size) {
    return {size, {&WriteWith<Write>, &write, 0}};
  }
  template <typename Write>
  static CallInput WrittenBy(const Write&& write, size_t size) = delete;
  // The first `size` bytes of the buffer, without a copy.
  CallInput(const Buffer& buffer, size_t size)
      : bytes_(buffer.data().data(), size), kind_(Kind::kBuffer), source_(&buffer) {}
  // `length` bytes at `offset` of a window of this client, which outlives the call.
  CallInput(const RegisteredWindow& window, uint64_t offset, uint64_t length)
      : bytes_(static_cast<const std::byte*>(nullptr), length),
        kind_(Kind::kWindow),
        source_(&window),
        offset_(offset) {}

  size_t size() const { return bytes_.size(); }

 private:
  friend class CallStarter;
  friend class Client;
  friend class KeptInput;
  friend class MemoryCall;
  friend class RequestMaker;
  enum class Kind : uint8_t { kBytes, kWritten, kBuffer, kWindow };

  CallInput(size_t size, const InputWriter& writer)
      : bytes_(static_cast<const std::byte*>(nullptr), size),
        kind_(Kind::kWritten),
        writer_(writer) {}

  template <typename Write>
  static void WriteWith(const void* source, size_t, std::byte* to) noexcept {
    (*static_cast<const Write*>(source))(to);
  }
  static void WriteParts(const void* source, size_t count, std::byte* to) noexcept {
    for (const Bytes part : absl::MakeSpan(static_cast<const Bytes*>(source), count)) {
      to = std::copy(part.begin(), part.end(), to);
    }
  }
  static size_t SizeOf(absl::Span<const Bytes> parts) {
    size_t size = 0;
    for (const Bytes part : parts) size += part.size();
    return size;
  }
  void WriteTo(std::byte* to) const { writer_.write(writer_.source, writer_.count, to); }
  const Buffer& buffer() const { return *static_cast<const Buffer*>(source_); }
  const RegisteredWindow& window() const { return *static_cast<const RegisteredWindow*>(source_); }

  Bytes bytes_;  // without an address for what is written and for a window
  Kind kind_ = Kind::kBytes;
  const void* source_ = nullptr;  // a Buffer or a RegisteredWindow
  uint64_t offset_ = 0;           // in a window
  InputWriter writer_;            // kWritten
};

class INVOKER_EXPORT Client {
 public:
  using FunctionHandle = RemoteFunction;
  using Input = CallInput;

  // Connects to the invoker_server at "HOST:PORT", opens a session on the best fabric and proves
  // the data path with a probe; where it does not work, goes on with the next fabric. Blocks for at
  // most a few connect_timeout, and for two probe_timeout for each fabric that does not work; for
  // twice as long where other clients of this process, with the same options, have a lease on the
  // worker that it is to share and cannot. The error says which step failed and what was tried.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(absl::string_view server,
                                                         const ClientOptions& options = {});

  // Takes a session that has been opened.
  static std::unique_ptr<Client> Of(std::unique_ptr<Connection> connection);

  // Closes, unless Close has been called. Other threads may be inside a call, which ends, but none
  // may be about to enter one. Futures, responses and buffers may outlive the client.
  ~Client();

  // Ends calls under way, on other threads too, as CANCELLED and closes the session; further calls
  // fail. Blocks for a round trip to the server, and until no CallDone runs any more. Not by two
  // threads at once, and not from a CallDone.
  void Close();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // NOT_FOUND lists what the worker has.
  absl::StatusOr<RemoteFunction> Function(absl::string_view name) const;
  std::vector<std::string> FunctionNames() const;
  // A typed function, to call with values (typed_call.h): Function<double(std::string)>("name").
  // INVALID_ARGUMENT if the worker's has another signature, and shows both.
  template <typename Signature>
  absl::StatusOr<TypedFunction<Signature, Client>> Function(absl::string_view name) {
    absl::StatusOr<RemoteFunction> function = Function(name);
    if (!function.ok()) return function.status();
    using Typed = TypedFunction<Signature, Client>;
    absl::Status same = CheckSignature(name, function->signature(), Typed::Signature());
    if (!same.ok()) return same;
    return Typed(this, *std::move(function));
  }

  // Calls and waits.
  absl::StatusOr<Response> Invoke(const RemoteFunction& function, const CallInput& input,
                                  const CallOptions& options = kDefaultCallOptions) {
    // Inline, so that a call of the common kinds makes no CallInput at all.
    if (input.kind_ == CallInput::Kind::kBytes) {
      return InvokeBytes(function, input.bytes_, options);
    }
    if (input.kind_ == CallInput::Kind::kBuffer) {
      return InvokeBuffer(function, input.buffer(), input.size(), options);
    }
    return InvokeOther(function, input, options);
  }

  // Starts a call. Its result is the future's; or `done` gets it, exactly once: on the helper
  // thread, on a thread that waits for another call of this client, cancels one or closes it, or
  // on this thread if the call cannot start. `done` may make calls and wait for them, of other
  // clients too, also after the worker has gone; other results of this client's wait meanwhile.
  //
  // Blocks only while the windows have no room, and for a round trip to the server where memory is
  // registered for the call. An error to start is the call's result. The call is posted at once,
  // unless more than four (with 16 or more under way: more than one) have been started without a
  // wait in between: those leave together, when 16 have gathered, when a thread waits, or after 50
  // to 200 us at the latest.
  Future InvokeAsync(const RemoteFunction& function, const CallInput& input,
                     const CallOptions& options = kDefaultCallOptions, CallDone done = nullptr);

  // RESOURCE_EXHAUSTED if the request window has no room for `size` adjacent bytes now.
  absl::StatusOr<Buffer> AllocateBuffer(size_t size);

  // Gives the executor access to memory of the caller's, which outlives the window. Blocks for a
  // round trip to the server. FAILED_PRECONDITION if the fabric cannot do it.
  absl::StatusOr<RegisteredWindow> RegisterWindow(void* data, size_t size, WindowAccess access);

  // A round trip through the executor that runs no function and returns the same bytes.
  absl::Status Ping(Bytes payload, const CallOptions& options = {});

  // OK, or why no further call can succeed (the worker has gone, or is shutting down).
  absl::Status status() const;

  // For what goes together with the session: leases, code that is loaded.
  Connection& connection() const { return *connection_; }

  // "HOST:PORT" of its worker.
  const std::string& server() const;
  const std::string& provider() const;
  // The provider and why it was taken, for people: "a: same host; the worker also offers b".
  const std::string& fabric_choice() const;
  Notification notification() const;
  // Empty, or why write-with-immediate was given up for send-after-write.
  const std::string& downgrade_reason() const;
  // Payloads of up to so many bytes go in pieces now, if the provider does not inject them whole:
  // ClientOptions::pieces_up_to, or what the last trial has found. 0: none.
  uint64_t pieces_up_to() const;
  // How many trials have had a result: one when the session opened, unless the executor was busy,
  // and one for each time that an end was seen at another place.
  uint64_t method_trials() const;
  // Largest payload of a request or a response, in bytes.
  uint64_t max_payload() const;
  // The number of its session, which the responses to its calls have too.
  uint64_t session() const;
  uint32_t executor() const;
  // How much of each message is under a keyed tag.
  DataAuth data_auth() const;
  // What came into the response window, or over the endpoint, and was dropped, by reason.
  ResponseDropCounters dropped_responses() const;

 private:
  friend class CallStarter;
  friend class MemoryCall;
  explicit Client(std::unique_ptr<Connection> connection);

  absl::StatusOr<Response> InvokeBytes(const RemoteFunction& function, Bytes input,
                                       const CallOptions& options);
  absl::StatusOr<Response> InvokeBuffer(const RemoteFunction& function, const Buffer& buffer,
                                        size_t size, const CallOptions& options);
  // Any kind.
  absl::StatusOr<Response> InvokeOther(const RemoteFunction& function, const CallInput& input,
                                       const CallOptions& options);
  absl::StatusOr<Response> InvokeWithMemory(const RemoteFunction& function, const CallInput& input,
                                            const CallOptions& options);
  absl::StatusOr<RegisteredWindow> RegisterWindowWithin(void* data, size_t size,
                                                        WindowAccess access,
                                                        absl::Duration timeout);

  std::unique_ptr<Connection> connection_;
  std::shared_ptr<CallDriver> driver_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_H_
