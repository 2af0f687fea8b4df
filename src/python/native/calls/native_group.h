// invoker::ClientGroup for Python.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_GROUP_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_GROUP_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "invoker/client_group.h"
#include "src/python/native/calls/connect_options.h"
#include "src/python/native/calls/native_caller.h"
#include "src/python/native/calls/native_client.h"

namespace invoker::python {

// Threads as for NativeCaller.
class NativeGroup : public NativeCaller {
 public:
  // A session with each worker. Blocks. Raises what ClientGroup::Connect returns.
  static std::unique_ptr<NativeGroup> Connect(const Way& way, bool reconnect);
  // The executors of leases, which `group` has.
  static std::unique_ptr<NativeGroup> Of(std::shared_ptr<ClientGroup> group) {
    return std::unique_ptr<NativeGroup>(new NativeGroup("lease", std::move(group)));
  }

  // The workers of the executors that are left, each once.
  std::vector<std::string> Servers() const;
  // Whether one of them leases executors for Python functions, as it said when it was connected to.
  bool LeasesPython() const;
  // The clients that the executors have now. They are the group's to close.
  std::vector<std::unique_ptr<NativeClient>> Clients() const;
  // The client of the session that a response came in. Raises UNAVAILABLE if the group has lost it.
  std::unique_ptr<NativeClient> ClientOf(uint64_t session) const;

 private:
  NativeGroup(const char* what, std::shared_ptr<ClientGroup> group)
      : NativeCaller(what, std::make_shared<GroupTarget>(group)) {}

  // The group, as NativeCaller::Target.
  std::shared_ptr<ClientGroup> Get() const;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_GROUP_H_
