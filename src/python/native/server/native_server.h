// A worker in the user's own process, whose functions are Python callables; the rest of it is in
// invoker/server.py.

#ifndef INVOKER_SRC_PYTHON_NATIVE_SERVER_NATIVE_SERVER_H_
#define INVOKER_SRC_PYTHON_NATIVE_SERVER_NATIVE_SERVER_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "invoker/server.h"
#include "src/python/native/server/fork_mark.h"
#include "src/python/native/server/python_function.h"

namespace invoker::python {

// Methods are called with the GIL and release it wherever they wait. Any thread, but that of one of
// the server's own functions may not close it.
class NativeServer {
 public:
  struct Options {
    std::string listen;
    std::string provider;
    std::string fabric_address;
    std::string notify;
    std::string data_auth;
    uint64_t window_bytes = 0;  // 0: the default
    uint32_t executors = 1;
    double hot_timeout_s = 0;
    std::string tls_cert;
    std::string tls_key;
    std::string tls_client_ca;
    std::string token_file;
    std::string policy_file;
    bool allow_plaintext = false;
    std::string metrics;  // empty: nowhere
    std::string cluster;  // empty: in none
    ClusterCredentials cluster_credentials;
    std::string advertise;
    std::map<std::string, std::string> labels;
    double peer_timeout_s = 5;  // a client that is silent for so long has lost its sessions
  };

  struct Function {
    std::string name;
    pybind11::object callable;
    bool framed = false;
    std::string signature;  // a typed one's
    std::string doc;
    uint32_t concurrency = 0;
    bool coroutine = false;
  };

  // Blocks for as long as it takes to prove the fabrics. Raises what was wrong.
  static std::unique_ptr<NativeServer> Start(std::vector<Function> functions,
                                             const Options& options);

  ~NativeServer() { LetGo(); }

  // Refuses calls from now on, waits for the functions that run and at most drain_timeout_s for
  // their responses to leave, and ends all sessions. Again: does nothing. In a forked process it
  // only lets go.
  void Close(double drain_timeout_s);
  // Closes, waiting for nothing but a function that runs; inside of a function of any server, which
  // could be waiting for itself, has another thread do it. Under the GIL. Raises nothing.
  void LetGo();
  bool closed() const { return serving_ == nullptr; }
  bool forked() const { return mark_.forked(); }

  const std::string& address() const { return address_; }
  const std::string& metrics_address() const { return metrics_address_; }
  const std::vector<std::string>& providers() const { return providers_; }
  // Whether a server of this process that has not been closed may be meant by "HOST:PORT", one of
  // several with commas between them, or a cluster.
  static bool MayServe(const std::string& address);

  // Calls run so far. Blocks for a turn of an executor.
  uint64_t CallsRun();

 private:
  NativeServer();
  std::shared_ptr<Server> Take();
  void Leave(std::shared_ptr<Server> serving);

  ForkMark mark_;
  std::string address_;
  std::string metrics_address_;
  std::vector<std::string> providers_;
  std::vector<std::unique_ptr<PythonFunction>> functions_;  // outlive what runs them
  std::shared_ptr<Server> serving_;                         // under the GIL; nullptr once closed
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_SERVER_NATIVE_SERVER_H_
