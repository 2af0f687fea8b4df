#include "src/python/native/calls/native_client.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/python/native/errors.h"
#include "src/python/native/gil.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::python {

namespace py = pybind11;

std::unique_ptr<NativeClient> NativeClient::Connect(const Way& way) {
  if (const absl::Status status = BeginUse(); !status.ok()) Raise(status);
  absl::StatusOr<std::unique_ptr<Client>> client =
      WithoutGil([&] { return Client::Connect(way.server, way.options); });
  if (!client.ok()) Raise(client.status());
  return std::unique_ptr<NativeClient>(new NativeClient(*std::move(client), /*owned=*/true));
}

std::shared_ptr<Client> NativeClient::Get() const {
  const std::shared_ptr<CallTarget> target = Target();
  return {target, &static_cast<ClientTarget&>(*target).client()};
}

std::string NativeClient::data_auth() const {
  return std::string(DataAuthName(Get()->data_auth()));
}

py::dict NativeClient::DroppedResponses() const {
  py::dict dropped;
  ForEachDrop(Get()->dropped_responses(), [&dropped](absl::string_view reason, uint64_t count) {
    dropped[py::str(std::string(reason))] = count;
  });
  return dropped;
}

std::string NativeClient::notification() const {
  return std::string(NotificationName(Get()->notification()));
}

double NativeClient::Ping(int64_t size, std::optional<double> timeout_s) {
  const std::shared_ptr<CallTarget> target = Target();
  Client& client = static_cast<ClientTarget&>(*target).client();
  CallTerms terms;
  terms.timeout_s = timeout_s;
  const CallOptions options = MakeOptions(*target, terms, 0);
  if (size < 0 || static_cast<uint64_t>(size) > client.max_payload()) {
    RaiseNotSent(absl::InvalidArgumentError(
        absl::StrCat("size=", size, " is not from 0 to ", client.max_payload(),
                     " bytes, the largest payload of this session")));
  }
  absl::Duration elapsed;
  const absl::Status status = WithoutGil([&] {
    std::vector<std::byte> payload(static_cast<size_t>(size));
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 131);
    const int64_t begin_ns = transport::MonotonicNs();
    absl::Status pinged = client.Ping(payload, options);
    elapsed = absl::Nanoseconds(transport::MonotonicNs() - begin_ns);
    return pinged;
  });
  RaiseUnlessOk(status);
  return absl::ToDoubleSeconds(elapsed);
}

}  // namespace invoker::python
