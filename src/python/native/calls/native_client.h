// invoker::Client for Python.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_CLIENT_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_CLIENT_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "invoker/client.h"
#include "src/python/native/calls/connect_options.h"
#include "src/python/native/calls/native_caller.h"

namespace invoker::python {

// Threads as for NativeCaller.
class NativeClient : public NativeCaller {
 public:
  // Blocks. Raises what Client::Connect returns.
  static std::unique_ptr<NativeClient> Connect(const Way& way);

  // A client that somebody else opened and closes: Close only lets go of it.
  explicit NativeClient(std::shared_ptr<Client> client)
      : NativeClient(std::move(client), /*owned=*/false) {}

  // A round trip with that many bytes; returns the seconds it took.
  double Ping(int64_t size, std::optional<double> timeout_s);

  std::string server() const { return Get()->server(); }
  uint64_t session() const { return Get()->session(); }
  std::string provider() const { return Get()->provider(); }
  std::string notification() const;
  std::string data_auth() const;
  pybind11::dict DroppedResponses() const;
  std::string fabric_choice() const { return Get()->fabric_choice(); }
  std::string downgrade_reason() const { return Get()->downgrade_reason(); }

 private:
  NativeClient(std::shared_ptr<Client> client, bool owned)
      : NativeCaller("client", std::make_shared<ClientTarget>(std::move(client), owned)) {}

  // The client, as NativeCaller::Target.
  std::shared_ptr<Client> Get() const;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_CLIENT_H_
