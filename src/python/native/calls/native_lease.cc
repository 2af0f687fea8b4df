#include "src/python/native/calls/native_lease.h"

#include <pybind11/stl.h>

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/client/client.h"
#include "src/python/native/errors.h"
#include "src/python/native/gil.h"
#include "src/python/native/signals.h"
#include "src/python/native/typed/pieces.h"
#include "src/python/native/typed/signature_codec.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// Long enough for a library of some hundred megabytes over a slow network.
constexpr absl::Duration kLoadTimeout = absl::Minutes(5);

struct PollingName {
  Polling polling;
  const char* name;
};
constexpr PollingName kPollingNames[] = {{Polling::kDefault, ""},
                                         {Polling::kHot, "hot"},
                                         {Polling::kWarm, "warm"},
                                         {Polling::kAdaptive, "adaptive"}};

const char* CauseName(LeaseEndCause cause) {
  switch (cause) {
    case LeaseEndCause::kReleased:
      return "released";
    case LeaseEndCause::kExpired:
      return "expired";
    case LeaseEndCause::kTtl:
      return "ttl";
    case LeaseEndCause::kCrashed:
      return "crashed";
    case LeaseEndCause::kExited:
      return "exited";
    case LeaseEndCause::kMemoryLimit:
      return "memory_limit";
    case LeaseEndCause::kCallLimit:
      return "call_limit";
    case LeaseEndCause::kServer:
      return "server";
  }
  return "server";
}

template <typename T>
T Term(const py::dict& terms, const char* name) {
  return terms[name].cast<T>();
}

absl::Duration SecondsIn(const py::dict& terms, const char* name) {
  return absl::Seconds(Term<double>(terms, name));
}

LeaseOptions OptionsOf(const py::dict& terms) {
  LeaseOptions options;
  options.executors = Term<uint32_t>(terms, "executors");
  options.kind = Term<bool>(terms, "python") ? ExecutorKind::kPython : ExecutorKind::kNative;
  options.memory_bytes = Term<uint64_t>(terms, "memory");
  const auto polling = Term<std::string>(terms, "polling");
  for (const PollingName& known : kPollingNames) {
    if (polling == known.name) options.polling = known.polling;
  }
  options.hot_timeout = SecondsIn(terms, "hot_timeout");
  options.ttl = SecondsIn(terms, "ttl");
  options.call_limit = SecondsIn(terms, "call_limit");
  options.wait = SecondsIn(terms, "wait");
  options.tenant = Term<std::string>(terms, "tenant");
  options.at_least = Term<uint32_t>(terms, "at_least");
  options.labels = Term<std::map<std::string, std::string>>(terms, "labels");
  options.spread = Term<std::string>(terms, "spread");
  options.replace = Term<bool>(terms, "replace");
  return options;
}

py::dict DictOf(const ResourceUsage& usage) {
  py::dict dict;
  dict["lease_time"] = absl::ToDoubleSeconds(usage.lease_time);
  dict["cpu_time"] = absl::ToDoubleSeconds(usage.cpu_time);
  dict["memory_byte_seconds"] = usage.memory_byte_seconds;
  dict["calls"] = usage.calls;
  dict["function_time"] = absl::ToDoubleSeconds(usage.function_time);
  dict["polling_time"] = absl::ToDoubleSeconds(usage.polling_time);
  dict["bytes_in"] = usage.bytes_in;
  dict["bytes_out"] = usage.bytes_out;
  return dict;
}

py::dict DictOf(const LeaseEnd& end) {
  py::dict dict = DictOf(end.usage);
  dict["cause"] = CauseName(end.cause);
  dict["reason"] = end.reason;
  return dict;
}

}  // namespace

NativeLease::~NativeLease() {
  if (group_ == nullptr) return;
  if (forked()) {
    // The threads that it needs to end are the parent's: leave it alone, for good.
    new std::shared_ptr<ClientGroup>(std::move(group_));
    return;
  }
  WithoutGil([&] {
    group_.reset();
    return true;
  });
}

std::unique_ptr<NativeLease> NativeLease::Acquire(const Way& way, const py::dict& terms) {
  if (const absl::Status status = BeginUse(); !status.ok()) Raise(status);
  LeaseOptions lease_options = OptionsOf(terms);
  lease_options.client = way.options;
  absl::StatusOr<std::unique_ptr<ClientGroup>> group =
      WithoutGil([&] { return ClientGroup::Acquire(way.server, lease_options); });
  if (!group.ok()) Raise(group.status());
  return std::unique_ptr<NativeLease>(new NativeLease(*std::move(group)));
}

std::shared_ptr<ClientGroup> NativeLease::Get() const {
  if (forked()) {
    RaiseNotSent(absl::FailedPreconditionError(
        absl::StrCat("this lease was taken by process ", mark_.process(),
                     ", and a forked process cannot use it; start processes that are to have "
                     "leases of their own by multiprocessing's \"spawn\" method")));
  }
  if (group_ == nullptr) {
    RaiseNotSent(absl::FailedPreconditionError("the lease has been closed"));
  }
  return group_;
}

std::vector<std::string> NativeLease::Load(const py::bytes& code, bool python,
                                           const std::string& name) {
  const std::shared_ptr<ClientGroup> group = Get();
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(code.ptr(), &data, &size) != 0) throw py::error_already_set();
  const absl::string_view bytes(data, static_cast<size_t>(size));
  const CodeKind kind = python ? CodeKind::kPython : CodeKind::kLibrary;
  const absl::Status status =
      WithoutGil([&] { return group->UploadCode(bytes, kind, name, kLoadTimeout); });
  if (!status.ok()) Raise(status);
  return group->FunctionNames();
}

std::unique_ptr<NativeReference> NativeLease::Put(const std::string& type, const py::object& array,
                                                  std::optional<double> timeout) {
  const std::shared_ptr<ClientGroup> group = Get();
  const auto codec = SignatureCodec::Parse(absl::StrCat("(", type, ") -> None"));
  Pieces pieces;
  PyObject* const arguments[] = {array.ptr()};
  codec->EncodeArguments("put", arguments, &pieces);
  CallOptions options;
  if (timeout.has_value()) options.timeout = SecondsOf("timeout", *timeout);
  if (OnMainThread()) options.interrupted = SignalRaised;
  absl::StatusOr<UntypedReference> reference = WithoutGil([&] {
    return group->PutBytes(
        type, pieces.size(), [&pieces](std::byte* to) { pieces.WriteTo(to); }, options);
  });
  RaiseUnlessOk(reference.status());
  return std::make_unique<NativeReference>(*std::move(reference));
}

std::vector<std::string> NativeLease::Servers() const {
  std::vector<std::string> servers;
  for (const std::shared_ptr<Lease>& lease : Get()->leases()) servers.push_back(lease->server());
  return servers;
}

// While one of them is left, it has not.
py::object NativeLease::Ended() const {
  absl::Status status;
  for (const std::shared_ptr<Lease>& lease : Get()->leases()) {
    status = lease->status();
    if (status.ok()) return py::none();
  }
  return MakeException(status);
}

py::dict NativeLease::Terms() const {
  const std::shared_ptr<ClientGroup> group = Get();
  const LeaseTerms terms = group->leases().front()->terms();
  py::dict dict;
  dict["executors"] = group->size();
  dict["python"] = terms.kind == ExecutorKind::kPython;
  dict["memory"] = terms.memory_bytes;
  for (const PollingName& known : kPollingNames) {
    if (terms.polling == known.polling) dict["polling"] = known.name;
  }
  dict["hot_timeout"] = absl::ToDoubleSeconds(terms.hot_timeout);
  dict["ttl"] = absl::ToDoubleSeconds(terms.ttl);
  dict["call_limit"] = absl::ToDoubleSeconds(terms.call_limit);
  return dict;
}

py::dict NativeLease::Usage() const {
  const std::shared_ptr<ClientGroup> group = Get();
  const absl::StatusOr<ResourceUsage> usage = WithoutGil([&] { return group->Usage(); });
  const std::vector<std::shared_ptr<Lease>> leases = group->leases();
  if (leases.size() == 1) {
    if (const auto end = leases.front()->end(); end.has_value()) return DictOf(*end);
  }
  if (!usage.ok()) Raise(usage.status());
  return DictOf(*usage);
}

py::dict NativeLease::Release() {
  const std::shared_ptr<ClientGroup> group = Get();
  group_ = nullptr;
  const absl::StatusOr<LeaseEnd> end = WithoutGil([&] { return group->ReleaseAll(); });
  if (end.ok()) return DictOf(*end);
  // Nothing of it is known: zeros would look like a bill.
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  py::dict dict = DictOf(LeaseEnd());
  for (const auto& entry : dict) dict[entry.first] = kUnknown;
  dict["cause"] = "unknown";
  dict["reason"] = absl::StrCat("the bill could not be had: ", end.status().message());
  return dict;
}

py::dict WorkerCapacity(const Way& way) {
  if (const absl::Status status = BeginUse(); !status.ok()) Raise(status);
  const absl::StatusOr<bootstrap::Capacity> capacity =
      WithoutGil([&]() -> absl::StatusOr<bootstrap::Capacity> {
        const absl::StatusOr<std::unique_ptr<bootstrap::BootstrapClient>> client =
            bootstrap::BootstrapClient::Connect(way.server, way.options.connect_timeout,
                                                way.options.credentials);
        if (!client.ok()) return client.status();
        return (*client)->worker_info().capacity;
      });
  if (!capacity.ok()) Raise(capacity.status());
  py::dict dict;
  dict["cores"] = capacity->cores;
  dict["free_cores"] = capacity->free_cores;
  dict["memory"] = capacity->memory_bytes;
  dict["free_memory"] = capacity->free_memory_bytes;
  dict["waiting"] = capacity->waiting;
  dict["allow_upload"] = capacity->allow_upload;
  dict["python"] = capacity->python;
  return dict;
}

}  // namespace invoker::python
