// The options of connect(), as the package's Python half hands them over.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_CONNECT_OPTIONS_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_CONNECT_OPTIONS_H_

#include <pybind11/pybind11.h>

#include <string>

#include "absl/time/time.h"
#include "invoker/client_options.h"

namespace invoker::python {

// The way to a worker, or to all workers of a group.
struct Way {
  std::string server;  // in people's words
  ClientOptions options;
};

// From the fields of an invoker._calls.connecting.Connecting. Raises what is wrong with them. With
// the GIL.
Way WayFrom(const pybind11::tuple& fields);

// From those of an invoker._calls.connecting.ClusterCredentials. With the GIL.
ClusterCredentials ClusterCredentialsFrom(const pybind11::tuple& fields);

// A number of seconds that a Python program gave. Raises ValueError for NaN. With the GIL.
absl::Duration SecondsOf(const char* name, double seconds);

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_CONNECT_OPTIONS_H_
