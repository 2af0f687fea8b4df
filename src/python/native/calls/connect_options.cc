#include "src/python/native/calls/connect_options.h"

#include <pybind11/stl.h>

#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "invoker/notification.h"
#include "src/python/native/errors.h"
#include "src/python/native/server/native_server.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// The fields of invoker._calls.connecting.Credentials.
ClientCredentials CredentialsFrom(const py::tuple& fields) {
  const auto text = [&fields](size_t field) { return fields[field].cast<std::string>(); };
  return {text(0), text(1), text(2), text(3), text(4), fields[5].cast<bool>()};
}

}  // namespace

ClusterCredentials ClusterCredentialsFrom(const py::tuple& fields) {
  const auto text = [&fields](size_t field) { return fields[field].cast<std::string>(); };
  return {text(0), text(1), text(2), text(3), fields[4].cast<bool>()};
}

absl::Duration SecondsOf(const char* name, double seconds) {
  if (std::isnan(seconds)) throw py::value_error(absl::StrCat(name, " is not a number"));
  return absl::Seconds(seconds);
}

Way WayFrom(const py::tuple& fields) {
  const auto text = [&fields](size_t field) { return fields[field].cast<std::string>(); };
  const auto seconds = [&fields](const char* name, size_t field) {
    return SecondsOf(name, fields[field].cast<double>());
  };
  Way way;
  way.server = text(0);
  ClientOptions& options = way.options;
  options.provider = text(1);
  options.fabric_address = text(2);
  if (!ParseNotification(text(3), &options.notification)) {
    Raise(absl::InvalidArgumentError(absl::StrCat(
        "notify=\"", text(3), "\" is not one of \"auto\", \"write_imm\", \"send_after_write\"")));
  }
  const std::optional<DataAuth> data_auth = ParseDataAuth(text(4));
  if (!data_auth.has_value()) {
    Raise(absl::InvalidArgumentError(
        absl::StrCat("data_auth=\"", text(4), "\" is not one of \"off\", \"header\", \"full\"")));
  }
  options.data_auth = *data_auth;
  options.window_bytes = fields[5].cast<uint64_t>();
  options.connect_timeout = seconds("connect_timeout", 6);
  options.hot_timeout = seconds("hot_timeout", 7);
  options.credentials = CredentialsFrom(fields[8].cast<py::tuple>());
  options.peer_timeout = seconds("peer_timeout", 9);
  options.pieces_up_to = fields[10].cast<std::optional<uint64_t>>();
  options.cluster = ClusterCredentialsFrom(fields[11].cast<py::tuple>());
  options.worker_in_this_process = NativeServer::MayServe(way.server);
  return way;
}

}  // namespace invoker::python
