#include "src/python/native/calls/native_caller.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/client/call_starter.h"
#include "src/invoke/session/call_deadline.h"
#include "src/python/native/buffer.h"
#include "src/python/native/calls/connect_options.h"
#include "src/python/native/calls/started_call.h"
#include "src/python/native/errors.h"
#include "src/python/native/gil.h"
#include "src/python/native/signals.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// Arguments of Python's; nullptr: not given.
std::optional<double> NumberIn(PyObject* object) {
  if (object == nullptr) return std::nullopt;
  const double number = PyFloat_AsDouble(object);
  if (number == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return number;
}

// Larger ones than fit count as the largest.
std::optional<int64_t> IntegerIn(PyObject* object) {
  if (object == nullptr) return std::nullopt;
  const Py_ssize_t number = PyNumber_AsSsize_t(object, nullptr);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return number;
}

absl::Status OutTooSmall(size_t response, size_t out) {
  return WithFate(absl::ResourceExhaustedError(absl::StrCat("the response has ", response,
                                                            " bytes, and out= has room for ", out)),
                  CallFate::kExecuted);
}

// The worker's answer that a response did not fit, with what the caller gave.
absl::Status WithOutSize(const absl::Status& status, size_t out) {
  if (!absl::IsResourceExhausted(status) || GetCallFate(status) != CallFate::kExecuted) {
    return status;
  }
  return WithFate(
      absl::ResourceExhaustedError(absl::StrCat(status.message(), "; out= has ", out, " bytes")),
      CallFate::kExecuted);
}

py::object ViewOf(Memory memory) {
  PyObject* view = std::move(memory).IntoView();
  if (view == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(view);
}

// Where the response of a call goes that the windows are too small for.
absl::StatusOr<Memory> MakeRoom(const CallInput& input, const CallOptions& options, uint64_t room) {
  const uint64_t least =
      options.response_capacity != 0 ? uint64_t{options.response_capacity} : input.size();
  absl::StatusOr<Memory> memory = Memory::OfSize(std::max(least, room));
  return memory.ok() ? std::move(memory) : WithFate(memory.status(), CallFate::kNotSent);
}

struct Answer {
  Memory memory;
  uint64_t session;
};

// Calls and waits. The response is in memory of its own, which has `room` at least if that is more
// than goes through the windows.
absl::StatusOr<Answer> Invoke(CallTarget& target, const FunctionHandle& function,
                              const CallInput& input, CallOptions options, uint64_t room = 0) {
  const bool large = std::max(input.size(), room) > target.max_payload();
  absl::StatusOr<Memory> memory = Memory();
  if (large) {
    memory = MakeRoom(input, options, room);
    if (!memory.ok()) return memory.status();
    options.output = CallOutput(memory->bytes());
  }
  const absl::StatusOr<Response> response = target.Invoke(function, input, options);
  if (!response.ok()) return response.status();
  if (large) {
    memory->Truncate(response->size());
  } else {
    memory = Memory::CopyOf(response->data());
    if (!memory.ok()) return memory.status();
  }
  return Answer{*std::move(memory), response->session()};
}

// Requests up to this size are copied into the window under the GIL: to let go of it and to take it
// back takes longer.
constexpr size_t kMostBytesUnderGil = 16 << 10;

// Starts a call with what it keeps. Without the GIL.
absl::StatusOr<CallHandle> StartCopied(CallTarget& target, const FunctionHandle& function,
                                       const CallInput& input, CallOptions options,
                                       PendingCall::Kept* kept, CallDone& done) {
  if (kept == nullptr) return target.Start(function, input, options, done);
  if (kept->copies) kept->request = CallStarter::CopyOf(input);
  if (kept->large) {
    absl::StatusOr<Memory> memory = MakeRoom(input, options, kept->room);
    if (!memory.ok()) return memory.status();
    kept->response = *std::move(memory);
    options.output = CallOutput(kept->response.bytes());
  }
  return target.Start(function, kept->copies ? CallInput(kept->request) : input, options, done);
}

// While another thread runs the callback that is waited for.
constexpr absl::Duration kShortRest = absl::Milliseconds(1);

}  // namespace

NativeCaller::NativeCaller(const char* what, std::shared_ptr<CallTarget> target)
    : what_(what), target_(std::move(target)) {}

NativeCaller::~NativeCaller() { Close(); }

std::shared_ptr<CallTarget> NativeCaller::Target() const {
  if (forked()) {
    RaiseNotSent(absl::FailedPreconditionError(absl::StrCat(
        "this ", what_, " was opened by process ", mark_.process(),
        ", and a forked process cannot use it; start processes that are to have clients of their "
        "own by multiprocessing's \"spawn\" method")));
  }
  if (target_ == nullptr) {
    RaiseNotSent(absl::FailedPreconditionError(absl::StrCat("the ", what_, " has been closed")));
  }
  return target_;
}

FunctionHandle NativeCaller::Function(const std::string& name) const {
  absl::StatusOr<FunctionHandle> function = Target()->Function(name);
  if (!function.ok()) RaiseNotSent(function.status());
  return *std::move(function);
}

std::vector<std::string> NativeCaller::FunctionNames() const { return Target()->FunctionNames(); }

CallOptions NativeCaller::MakeOptions(const CallTarget& target, const CallTerms& terms,
                                      uint64_t input_size) {
  CallOptions options;
  if (terms.timeout_s.has_value()) options.timeout = SecondsOf("timeout", *terms.timeout_s);
  if (terms.response_capacity.has_value()) {
    const int64_t capacity = *terms.response_capacity;
    const uint64_t most = target.max_payload();
    if (capacity < 1 || static_cast<uint64_t>(capacity) > most) {
      RaiseNotSent(absl::InvalidArgumentError(
          absl::StrCat("response_capacity=", capacity, " is not from 1 to ", most,
                       " bytes, the largest payload of this session")));
    }
    options.response_capacity = static_cast<uint32_t>(capacity);
  } else if (terms.room > input_size) {
    // Otherwise the default is as much as the input has, or this.
    const uint64_t most = target.max_payload();
    if (terms.room > most / 64) {
      options.response_capacity = static_cast<uint32_t>(std::min(terms.room, most));
    }
  }
  if (terms.retry < 0 || terms.retry > UINT32_MAX) {
    RaiseNotSent(absl::InvalidArgumentError(
        absl::StrCat("retry=", terms.retry, " is not from 0 to ", UINT32_MAX)));
  }
  options.retry = static_cast<uint32_t>(terms.retry);
  // Responses are held only until they are copied, by threads that need nothing else for that.
  options.when_full = terms.may_block ? WhenFull::kWaitForResponses : WhenFull::kFail;
  if (OnMainThread()) options.interrupted = SignalRaised;
  return options;
}

py::object NativeCaller::Call(const FunctionHandle& function, const CallArguments& arguments) {
  const std::shared_ptr<CallTarget> target = Target();
  CallTerms terms;
  terms.timeout_s = NumberIn(arguments.timeout);
  terms.response_capacity = IntegerIn(arguments.response_capacity);
  terms.retry = IntegerIn(arguments.retry).value_or(0);
  const InputBuffer input(arguments.data);
  if (arguments.out == nullptr) {
    const CallOptions options = MakeOptions(*target, terms, input.bytes().size());
    absl::StatusOr<Answer> answer =
        WithoutGil([&] { return Invoke(*target, function, input.bytes(), options); });
    RaiseUnlessOk(answer.status());
    return ViewOf(std::move(answer->memory));
  }
  OutputBuffer output(arguments.out);
  const absl::Span<std::byte> room = output.bytes();
  terms.room = room.size();
  CallOptions options = MakeOptions(*target, terms, input.bytes().size());
  const bool large = std::max(input.bytes().size(), room.size()) > target->max_payload();
  if (large) options.output = CallOutput(room);
  const absl::StatusOr<size_t> size = WithoutGil([&]() -> absl::StatusOr<size_t> {
    const absl::StatusOr<Response> response = target->Invoke(function, input.bytes(), options);
    if (!response.ok()) return WithOutSize(response.status(), room.size());
    if (large) return response->size();
    if (response->size() > room.size()) return OutTooSmall(response->size(), room.size());
    if (response->size() > 0) std::memcpy(room.data(), response->data().data(), response->size());
    return response->size();
  });
  RaiseUnlessOk(size.status());
  return std::move(output).Beginning(*size);
}

namespace {

// Every caller makes at least this much room: more than the frame has that says where an answer is
// kept.
constexpr uint64_t kLeastFrameRoom = 512;

// Room for the frame of an answer, whose size is not known.
void MakeFrameRoom(const CallTarget& target, const Frame& frame, NativeCaller::CallTerms* terms) {
  const uint64_t most = target.max_payload();
  const uint64_t longest = std::exchange(terms->room, 0);
  if (terms->response_capacity.has_value()) return;
  const uint64_t as_long = frame.size() <= most ? frame.size() : 0;
  terms->response_capacity = static_cast<int64_t>(
      std::min(std::max({as_long, most / 64, kLeastFrameRoom, longest}), most));
}

}  // namespace

py::tuple NativeCaller::CallFrame(const FunctionHandle& function, const Frame& frame,
                                  CallTerms terms) {
  const std::shared_ptr<CallTarget> target = Target();
  MakeFrameRoom(*target, frame, &terms);
  const CallOptions options = MakeOptions(*target, terms, frame.input().size());
  absl::StatusOr<Answer> answer =
      WithoutGil([&] { return Invoke(*target, function, frame.input(), options); });
  RaiseUnlessOk(answer.status());
  try {
    const DecodedFrame decoded = DecodeFrame(ViewOf(std::move(answer->memory)));
    return py::make_tuple(static_cast<uint8_t>(decoded.kind), decoded.value, answer->session);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_ValueError)) throw;
    return py::make_tuple(0, error.value(), answer->session);
  }
}

namespace {

// A capacity beyond what goes through the windows is room for the response elsewhere.
void PlaceResponse(const CallTarget& target, NativeCaller::CallTerms* terms) {
  const int64_t capacity = terms->response_capacity.value_or(0);
  if (capacity <= 0 || static_cast<uint64_t>(capacity) <= target.max_payload()) return;
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  if (capacity > memory) {
    RaiseNotSent(absl::ResourceExhaustedError(
        absl::StrCat("response_capacity=", capacity, " is more than the memory of this machine, ",
                     memory, " bytes")));
  }
  terms->room = static_cast<uint64_t>(capacity);
  terms->response_capacity.reset();
}

// A typed request: in one piece if it is small, else where its parts are.
class TypedRequest {
 public:
  TypedRequest(const FunctionHandle& function, const SignatureCodec& signature,
               absl::Span<PyObject* const> arguments) {
    signature.EncodeArguments(function.name, arguments, &pieces_);
    if (pieces_.size() <= sizeof(small_)) {
      pieces_.WriteTo(small_);
    } else {
      spans_ = pieces_.Spans();
    }
  }

  CallInput input() const {
    if (pieces_.size() <= sizeof(small_)) return CallInput(small_, pieces_.size());
    return CallInput(absl::MakeConstSpan(spans_));
  }
  const std::vector<UntypedReference>& references() const { return pieces_.references(); }

 private:
  Pieces pieces_;
  std::byte small_[4096];
  std::vector<Bytes> spans_;
};

}  // namespace

py::object NativeCaller::CallTyped(const FunctionHandle& function, const SignatureCodec& signature,
                                   absl::Span<PyObject* const> arguments, CallTerms terms) {
  const std::shared_ptr<CallTarget> target = Target();
  const TypedRequest request(function, signature, arguments);
  PlaceResponse(*target, &terms);
  const CallOptions options = MakeOptions(*target, terms, request.input().size());
  absl::StatusOr<Answer> answer =
      WithoutGil([&] { return Invoke(*target, function, request.input(), options, terms.room); });
  RaiseUnlessOk(answer.status());
  const absl::Span<const std::byte> bytes = answer->memory.bytes();
  const py::object view = ViewOf(std::move(answer->memory));
  return signature.DecodeResult(bytes, view);
}

py::object NativeCaller::StartTyped(PyObject* self, const FunctionHandle& function,
                                    const SignatureCodec& signature,
                                    absl::Span<PyObject* const> arguments, CallTerms terms) {
  const TypedRequest request(function, signature, arguments);
  PlaceResponse(*Target(), &terms);
  return Begin(self, function, request.input(), terms, request.references());
}

py::object NativeCaller::Begin(PyObject* self, const FunctionHandle& function,
                               const CallInput& input, const CallTerms& terms,
                               const std::vector<UntypedReference>& references) {
  const std::shared_ptr<CallTarget> target = Target();
  CallOptions options = MakeOptions(*target, terms, input.size());
  const uint64_t most = target->max_payload();
  const bool large = input.size() > most || terms.room > most;
  // To register memory takes a round trip.
  if (large && !terms.may_block) return py::none();
  const bool copies = input.size() > most || !target->copies_input();
  std::unique_ptr<PendingCall::Kept> kept;
  if (large || copies || !references.empty()) {
    kept = std::make_unique<PendingCall::Kept>();
    kept->large = large;
    kept->copies = copies;
    kept->room = terms.room;
    kept->references = references;
  }
  PendingCall* const pending = PendingCall::Make(std::move(kept));
  pending->AddShare();
  CallDone done = [pending](absl::StatusOr<Response> response) {
    pending->End(std::move(response));
    pending->LetGo();
  };
  absl::StatusOr<CallHandle> call = absl::ResourceExhaustedError("not tried");
  const bool quick = !large && !copies && input.size() <= kMostBytesUnderGil;
  if (quick) {
    CallOptions now = options;
    now.when_full = WhenFull::kFail;
    call = target->Start(function, input, now, done);
  }
  if (!call.ok() && absl::IsResourceExhausted(call.status()) && (terms.may_block || !quick)) {
    call = WithoutGil(
        [&] { return StartCopied(*target, function, input, options, pending->kept(), done); });
  }
  if (call.ok()) {
    return py::reinterpret_steal<py::object>(
        MakeStartedCall(self, this, pending, *std::move(call)));
  }
  pending->LetGo();
  pending->LetGo();
  if (!terms.may_block && absl::IsResourceExhausted(call.status())) return py::none();
  RaiseUnlessOk(call.status());
  return py::none();
}

py::object NativeCaller::Start(PyObject* self, const FunctionHandle& function, PyObject* data,
                               const CallTerms& terms) {
  const InputBuffer input(data);
  return Begin(self, function, input.bytes(), terms);
}

py::object NativeCaller::StartFrame(PyObject* self, const FunctionHandle& function,
                                    const Frame& frame, CallTerms terms) {
  MakeFrameRoom(*Target(), frame, &terms);
  return Begin(self, function, frame.input(), terms);
}

bool NativeCaller::Cancel(CallHandle& call) {
  // What has been closed has ended its calls.
  if (target_ == nullptr || forked()) return false;
  const std::shared_ptr<CallTarget> target = target_;
  return WithoutGil([&] { return target->Cancel(call); });
}

void NativeCaller::LeaveToHelper() {
  if (target_ == nullptr || forked()) return;
  const std::shared_ptr<CallTarget> target = target_;
  WithoutGil([&] {
    target->LeaveToHelper();
    return true;
  });
}

bool NativeCaller::Await(PendingCall& call, std::optional<double> timeout) {
  if (forked()) Target();
  return AwaitDriving(
      target_, [&] { return call.ended(); }, [&](absl::Duration limit) { call.Await(limit); },
      timeout);
}

bool NativeCaller::Await(const EndedQueue& queue, std::optional<double> timeout) {
  if (forked()) Target();
  return AwaitDriving(
      target_, [&] { return queue.due(); }, [&](absl::Duration limit) { queue.Await(limit); },
      timeout);
}

void NativeCaller::AwaitOthers(const EndedQueue& queue) {
  AwaitDriving(
      nullptr, [&] { return queue.due(); }, [&](absl::Duration limit) { queue.Await(limit); },
      std::nullopt);
}

// `rest` waits for another thread to make it `done`. `target`, if any, drives here; this has a
// share of it, since another thread may close the caller meanwhile.
bool NativeCaller::AwaitDriving(std::shared_ptr<CallTarget> target, absl::FunctionRef<bool()> done,
                                absl::FunctionRef<void(absl::Duration limit)> rest,
                                std::optional<double> timeout) {
  const absl::Duration limit = timeout.has_value() ? SecondsOf("timeout", std::max(*timeout, 0.0))
                                                   : absl::InfiniteDuration();
  const CallDeadline deadline(limit);
  const bool looks_at_signals = OnMainThread();
  while (!done()) {
    const absl::Duration left = deadline.left();
    if (left <= absl::ZeroDuration()) return false;
    const absl::Duration slice = looks_at_signals ? std::min(left, kSignalsLookedAtEvery) : left;
    WithoutGil([&] {
      const CallDeadline end(slice);
      const bool drives = target != nullptr && target->DriveUntil(done, end.at_ns());
      if (!done()) rest(drives ? std::min(end.left(), kShortRest) : end.left());
      return true;
    });
    if (looks_at_signals && SignalRaised()) throw py::error_already_set();
  }
  return true;
}

void NativeCaller::Close() {
  if (target_ == nullptr) return;
  std::shared_ptr<CallTarget> target = std::exchange(target_, nullptr);
  if (forked()) {
    // The threads that it needs to end are the parent's: leave it alone, for good.
    new std::shared_ptr<CallTarget>(std::move(target));
    return;
  }
  WithoutGil([&] {
    target->Close();
    target.reset();
    return true;
  });
}

}  // namespace invoker::python
