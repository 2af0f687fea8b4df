// invoker::Client for Python: what only C++ can do; the rest is in invoker/client.py.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_CLIENT_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_CLIENT_H_

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "invoker/client.h"
#include "src/invoke/client/call_starter.h"
#include "src/python/native/bell.h"
#include "src/python/native/calls/result_queue.h"
#include "src/python/native/server/fork_mark.h"
#include "src/security/client_credentials.h"

namespace invoker::python {

// Methods are called with the GIL and release it wherever they wait. Any thread; in a process that
// was forked after the client was opened every method but Close raises.
class NativeClient {
 public:
  struct Options {
    std::string provider;
    std::string fabric_address;
    std::string notify;
    std::string data_auth;
    uint64_t window_bytes = 0;
    double connect_timeout_s = 0;
    double hot_timeout_s = 0;
    security::ClientCredentials credentials;
    double peer_timeout_s = 1;
    std::optional<uint64_t> pieces_up_to;
  };

  // Blocks. Raises what Client::Connect returns.
  static std::unique_ptr<NativeClient> Connect(const std::string& server, const Options& options);

  // Of a client that somebody else opened and closes: Close only lets go of it.
  static std::unique_ptr<NativeClient> Of(std::shared_ptr<Client> client);

  ~NativeClient();

  // Raises what is wrong with them.
  static ClientOptions MakeClientOptions(const Options& options);

  RemoteFunction Function(const std::string& name) const;
  std::vector<std::string> FunctionNames() const;

  // Borrowed; nullptr: not given.
  struct CallArguments {
    PyObject* data = nullptr;
    PyObject* timeout = nullptr;            // seconds
    PyObject* response_capacity = nullptr;  // bytes
    PyObject* out = nullptr;
  };

  // Calls and waits. Returns a memoryview of the response: of memory of its own, or of the
  // beginning of `out`. Signals are looked at while it waits, if this is the main thread. Throws
  // Python's exception.
  pybind11::object Call(const RemoteFunction& function, const CallArguments& arguments);

  // Starts a call whose result will be in NextResults with this token. Returns a CallTicket, for
  // Cancel; or None, and nothing has been started, if there is no room in the windows and
  // `may_block` is false.
  pybind11::object Start(uint64_t token, const RemoteFunction& function, pybind11::handle data,
                         std::optional<double> timeout_s, std::optional<int64_t> response_capacity,
                         bool may_block);

  // The same with a request of several parts (FrameParts), put together in registered memory: in
  // memory of the process first only where the window has no room at that moment. CallFrame takes
  // one of any size, but response_capacity must be given; StartFrame one of max_payload at most.
  pybind11::object CallFrame(const RemoteFunction& function, pybind11::handle parts,
                             std::optional<double> timeout_s,
                             std::optional<int64_t> response_capacity);
  pybind11::object StartFrame(uint64_t token, const RemoteFunction& function,
                              pybind11::handle parts, std::optional<double> timeout_s,
                              std::optional<int64_t> response_capacity, bool may_block);
  // Ends the call as cancelled; its result will be in NextResults, as others'. False if it has
  // ended.
  bool Cancel(const CallTicket& ticket);
  // Frames that have been put together in registered memory only.
  uint64_t frames_in_place() const { return frames_in_place_.load(std::memory_order_relaxed); }

  // Waits until results are there, or Wake is called: a list of (token, memoryview or exception).
  pybind11::list NextResults();
  void Wake() { results_->Wake(); }

  // A round trip with that many bytes; returns the seconds it took.
  double Ping(int64_t size, std::optional<double> timeout_s);

  // From now on the bell is rung once the worker, or its lease, has ended the session; at once if
  // that has happened already.
  void Watch(std::shared_ptr<Bell> bell);
  // Whether Watch's bell has been rung. Cheap.
  bool ended() const { return ended_->load(std::memory_order_acquire); }

  // Ends calls under way and the session. Blocks for a round trip to the server. Again: does
  // nothing.
  void Close();
  bool closed() const { return client_ == nullptr; }
  // Whether this is another process than the one that opened the client.
  bool forked() const { return mark_.forked(); }

  std::string provider() const { return Get()->provider(); }
  std::string notification() const;
  std::string data_auth() const;
  pybind11::dict DroppedResponses() const;
  std::string fabric_choice() const { return Get()->fabric_choice(); }
  std::string downgrade_reason() const { return Get()->downgrade_reason(); }
  uint64_t max_payload() const { return Get()->max_payload(); }

 private:
  NativeClient(std::shared_ptr<Client> client, bool owned);

  // The client, which stays while the caller holds it; raises if it is closed or another process's.
  std::shared_ptr<Client> Get() const;
  CallOptions MakeOptions(const Client& client, std::optional<double> timeout_s,
                          std::optional<int64_t> response_capacity) const;
  // Calls invoke(options, done, ticket), which returns why the call could not start, without the
  // GIL, once. As Start.
  template <typename Invoke>
  pybind11::object Begin(uint64_t token, CallOptions options, bool may_block, Invoke&& invoke);

  std::shared_ptr<Client> client_;  // under the GIL; nullptr once closed
  std::shared_ptr<ResultQueue> results_ = std::make_shared<ResultQueue>();
  std::atomic<uint64_t> frames_in_place_{0};
  const std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
  const bool owned_;  // closed by this
  const ForkMark mark_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_CLIENT_H_
