// invoker::Client for Python: what only C++ can do; the rest is in invoker/client.py.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CLIENT_H_
#define INVOKER_SRC_PYTHON_NATIVE_CLIENT_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/invoke/client.h"
#include "src/python/result_queue.h"

namespace invoker::python {

// Methods are called with the GIL and release it wherever they wait. Any thread; in a process that
// was forked after the client was opened every method but Close raises.
class NativeClient {
 public:
  struct Options {
    std::string provider;
    std::string fabric_address;
    std::string notify;
    uint64_t window_bytes = 0;
    double connect_timeout_s = 0;
    double hot_timeout_s = 0;
  };

  // Blocks. Raises what Client::Connect returns.
  static std::unique_ptr<NativeClient> Connect(const std::string& server, const Options& options);

  ~NativeClient();

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

  // Starts a call whose result will be in NextResults with this token. False, and nothing has been
  // started, if there is no room in the windows and `may_block` is false.
  bool Start(uint64_t token, const RemoteFunction& function, pybind11::handle data,
             std::optional<double> timeout_s, std::optional<int64_t> response_capacity,
             bool may_block);

  // Waits until results are there, or Wake is called: a list of (token, memoryview or exception).
  pybind11::list NextResults();
  void Wake() { results_->Wake(); }

  // A round trip with that many bytes; returns the seconds it took.
  double Ping(int64_t size, std::optional<double> timeout_s);

  // Ends calls under way and the session. Blocks for a round trip to the server. Again: does
  // nothing.
  void Close();
  bool closed() const { return client_ == nullptr; }
  // Whether this is another process than the one that opened the client.
  bool forked() const;

  std::string provider() const { return Get()->provider(); }
  std::string notification() const;
  std::string fabric_choice() const { return Get()->fabric_choice(); }
  std::string downgrade_reason() const { return Get()->downgrade_reason(); }
  uint64_t max_payload() const { return Get()->max_payload(); }

 private:
  explicit NativeClient(std::unique_ptr<Client> client);

  // The client, which stays while the caller holds it; raises if it is closed or another process's.
  std::shared_ptr<Client> Get() const;
  CallOptions MakeOptions(const Client& client, std::optional<double> timeout_s,
                          std::optional<int64_t> response_capacity) const;

  std::shared_ptr<Client> client_;  // under the GIL; nullptr once closed
  std::shared_ptr<ResultQueue> results_ = std::make_shared<ResultQueue>();
  uint32_t forks_;  // when it was opened
  int process_;
};

// Once, when the module is imported, with the identity of Python's main thread.
void PrepareNativeClients(unsigned long main_thread);

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CLIENT_H_
