// Leases for Python, one or several together; the rest of it is in invoker/lease.py.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_LEASE_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_LEASE_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "invoker/client_group.h"
#include "src/python/native/calls/connect_options.h"
#include "src/python/native/calls/native_group.h"
#include "src/python/native/server/fork_mark.h"
#include "src/python/native/typed/native_reference.h"

namespace invoker::python {

// Methods are called with the GIL and release it wherever they wait. Any thread; in a process that
// was forked after the lease was taken every method but Release raises.
class NativeLease {
 public:
  // `terms` is the dict that invoker._calls.leasing makes. Blocks. Raises what ClientGroup::Acquire
  // returns.
  static std::unique_ptr<NativeLease> Acquire(const Way& way, const pybind11::dict& terms);
  ~NativeLease();

  // The executors, to call.
  std::unique_ptr<NativeGroup> Group() const { return NativeGroup::Of(Get()); }
  // Where they are.
  std::vector<std::string> Servers() const;
  std::vector<std::string> FunctionNames() const { return Get()->FunctionNames(); }

  // Has code loaded into every executor, which the worker is sent only if it has not got it: a
  // shared library, or what invoker._pickle.shipping.dumps makes of a Python function. Returns the
  // names of all functions.
  std::vector<std::string> Load(const pybind11::bytes& code, bool python, const std::string& name);

  // ClientGroup::Put of an array of this type, as in a signature. Raises TypeError if it is of
  // another. Blocks; Ctrl-C ends it.
  std::unique_ptr<NativeReference> Put(const std::string& type, const pybind11::object& array,
                                       std::optional<double> timeout);

  // None, or the exception for why the lease has ended.
  pybind11::object Ended() const;
  // The granted terms, as a dict.
  pybind11::dict Terms() const;

  // What it has used so far, as Release's dict; with a cause only if the lease has ended. Blocks
  // for a round trip to the server.
  pybind11::dict Usage() const;

  // Ends calls under way and gives the lease back: the fields of invoker.Usage as a dict, with
  // cause "unknown" and no numbers if the bill could not be had. Blocks as Lease::Release. Again:
  // raises.
  pybind11::dict Release();

  bool closed() const { return group_ == nullptr; }
  bool forked() const { return mark_.forked(); }

 private:
  explicit NativeLease(std::unique_ptr<ClientGroup> group) : group_(std::move(group)) {}

  // The leases, which stay while the caller holds them; raises if there are none any more.
  std::shared_ptr<ClientGroup> Get() const;

  std::shared_ptr<ClientGroup> group_;  // under the GIL; nullptr once released
  const ForkMark mark_;
};

// What the worker has to lease, as a dict of invoker.Capacity's fields. Blocks for a round trip.
pybind11::dict WorkerCapacity(const Way& way);

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_LEASE_H_
