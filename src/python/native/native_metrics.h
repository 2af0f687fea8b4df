// A server of the metrics of this process's clients; the rest of it is in invoker/metrics.py.

#ifndef INVOKER_SRC_PYTHON_NATIVE_NATIVE_METRICS_H_
#define INVOKER_SRC_PYTHON_NATIVE_NATIVE_METRICS_H_

#include <memory>
#include <string>

#include "invoker/metrics.h"
#include "src/python/native/server/fork_mark.h"

namespace invoker::python {

// Methods are called with the GIL.
class NativeMetrics {
 public:
  // The fields of MetricsOptions. Raises what was wrong.
  static std::unique_ptr<NativeMetrics> Start(const std::string& listen,
                                              const std::string& tls_cert,
                                              const std::string& tls_key,
                                              const std::string& tls_client_ca,
                                              const std::string& token_file, bool allow_plaintext);
  ~NativeMetrics() { Close(); }

  // Again: does nothing. In a forked process it only lets go.
  void Close();

  const std::string& address() const { return address_; }

 private:
  explicit NativeMetrics(std::unique_ptr<MetricsServer> server);

  ForkMark mark_;
  std::string address_;
  std::unique_ptr<MetricsServer> server_;  // nullptr once closed
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_NATIVE_METRICS_H_
