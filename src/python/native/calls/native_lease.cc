#include "src/python/native/calls/native_lease.h"

#include <limits>
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

NativeLease::NativeLease(std::unique_ptr<Lease> lease) : lease_(std::move(lease)) {}

NativeLease::~NativeLease() {
  if (lease_ == nullptr) return;
  if (forked()) {
    // The threads that it needs to end are the parent's: leave it alone, for good.
    new std::shared_ptr<Lease>(std::move(lease_));
    return;
  }
  WithoutGil([&] {
    lease_.reset();
    return true;
  });
}

std::unique_ptr<NativeLease> NativeLease::Acquire(const Way& way, const py::dict& terms) {
  if (const absl::Status status = BeginUse(); !status.ok()) Raise(status);
  LeaseOptions lease_options = OptionsOf(terms);
  lease_options.client = way.options;
  absl::StatusOr<std::unique_ptr<Lease>> lease =
      WithoutGil([&] { return Lease::Acquire(way.server, lease_options); });
  if (!lease.ok()) Raise(lease.status());
  return std::unique_ptr<NativeLease>(new NativeLease(*std::move(lease)));
}

std::shared_ptr<Lease> NativeLease::Get() const {
  if (forked()) {
    RaiseNotSent(absl::FailedPreconditionError(
        absl::StrCat("this lease was taken by process ", mark_.process(),
                     ", and a forked process cannot use it; start processes that are to have "
                     "leases of their own by multiprocessing's \"spawn\" method")));
  }
  if (lease_ == nullptr) {
    RaiseNotSent(absl::FailedPreconditionError("the lease has been closed"));
  }
  return lease_;
}

std::vector<std::string> NativeLease::Load(const py::bytes& code, bool python,
                                           const std::string& name) {
  const std::shared_ptr<Lease> lease = Get();
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(code.ptr(), &data, &size) != 0) throw py::error_already_set();
  const absl::string_view bytes(data, static_cast<size_t>(size));
  const CodeKind kind = python ? CodeKind::kPython : CodeKind::kLibrary;
  const absl::Status status =
      WithoutGil([&] { return lease->UploadCode(bytes, kind, name, kLoadTimeout); });
  if (!status.ok()) Raise(status);
  return lease->FunctionNames();
}

std::unique_ptr<NativeReference> NativeLease::Put(const std::string& type, const py::object& array,
                                                  std::optional<double> timeout) {
  const std::shared_ptr<Lease> lease = Get();
  const auto codec = SignatureCodec::Parse(absl::StrCat("(", type, ") -> None"));
  Pieces pieces;
  PyObject* const arguments[] = {array.ptr()};
  codec->EncodeArguments("put", arguments, &pieces);
  CallOptions options;
  if (timeout.has_value()) options.timeout = SecondsOf("timeout", *timeout);
  if (OnMainThread()) options.interrupted = SignalRaised;
  absl::StatusOr<UntypedReference> reference = WithoutGil([&] {
    return lease->PutBytes(
        type, pieces.size(), [&pieces](std::byte* to) { pieces.WriteTo(to); }, options);
  });
  RaiseUnlessOk(reference.status());
  return std::make_unique<NativeReference>(*std::move(reference));
}

py::object NativeLease::Ended() const {
  const absl::Status status = Get()->status();
  return status.ok() ? py::none() : MakeException(status);
}

py::dict NativeLease::Terms() const {
  const LeaseTerms terms = Get()->terms();
  py::dict dict;
  dict["executors"] = terms.executors;
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
  const std::shared_ptr<Lease> lease = Get();
  const absl::StatusOr<ResourceUsage> usage = WithoutGil([&] { return lease->Usage(); });
  if (const absl::optional<LeaseEnd> end = lease->end(); end.has_value()) {
    return DictOf(*end);
  }
  if (!usage.ok()) Raise(usage.status());
  return DictOf(*usage);
}

py::dict NativeLease::Release() {
  const std::shared_ptr<Lease> lease = Get();
  lease_ = nullptr;
  const absl::StatusOr<LeaseEnd> end = WithoutGil([&] { return lease->Release(); });
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
