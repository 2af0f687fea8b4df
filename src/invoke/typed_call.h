// Calls of typed functions: arguments and results are values of C++, not bytes.
//
//   absl::StatusOr<double> Dot(invoker::Client* client, const std::vector<double>& a) {
//     using Array = invoker::ArrayView<const double>;
//     auto dot = client->Function<double(Array, Array)>("dot");
//     if (!dot.ok()) return dot.status();  // such as: the worker's `dot` has other parameters
//     return (*dot)(a, a);
//   }
//
// The types are those of values.h, and those that the function has on its worker: the look-up
// compares the two, and a function that differs is never called.

#ifndef INVOKER_SRC_INVOKE_TYPED_CALL_H_
#define INVOKER_SRC_INVOKE_TYPED_CALL_H_

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/utility/utility.h"
#include "invoker/call_fate.h"
#include "invoker/client_options.h"
#include "invoker/export.h"
#include "invoker/reference.h"
#include "invoker/response.h"
#include "invoker/values.h"

namespace invoker {

// INVALID_ARGUMENT, with both signatures, unless they are the same. An empty one: bytes.
INVOKER_EXPORT absl::Status CheckSignature(absl::string_view function, absl::string_view workers,
                                           absl::string_view callers);

// A result that points into its response, and keeps that: it holds room in the response window
// until it is destroyed. Movable.
template <typename R>
class ViewOf {
 public:
  ViewOf(Response&& response, R value) : response_(std::move(response)), value_(std::move(value)) {}

  const R& value() const { return value_; }
  const R& operator*() const { return value_; }
  const R* operator->() const { return &value_; }

 private:
  Response response_;
  R value_;
};

namespace values_internal {

template <typename R>
constexpr bool IsView() {
  if constexpr (std::is_void_v<R>)
    return false;
  else
    return Value<R>::kIsView;
}

// absl::Status for void, a ViewOf for what has views, else the result itself.
template <typename R>
using AnswerOf =
    std::conditional_t<std::is_void_v<R>, absl::Status,
                       absl::StatusOr<std::conditional_t<
                           IsView<R>(), ViewOf<std::conditional_t<std::is_void_v<R>, int, R>>,
                           std::conditional_t<std::is_void_v<R>, int, R>>>>;

template <typename R>
AnswerOf<R> ReadAnswer(absl::string_view function, absl::StatusOr<Response>&& response) {
  if (!response.ok()) return response.status();
  ValueReader reader(response->data().data(), response->size());
  const auto refuse = [&]() __attribute__((cold, noinline)) {
    return WithFate(
        absl::InternalError("the answer of \"" + std::string(function) + "\", of " +
                            std::to_string(response->size()) + " bytes, is no " + ResultName<R>()),
        CallFate::kExecuted);
  };
  if constexpr (std::is_void_v<R>) {
    if (reader.left() != 0) return refuse();
    return absl::OkStatus();
  } else {
    R value = R();
    if (!Value<R>::Read(&reader, &value) || reader.left() != 0) return refuse();
    if constexpr (Value<R>::kIsView) {
      return AnswerOf<R>(absl::in_place, *std::move(response), std::move(value));
    } else {
      return value;
    }
  }
}

}  // namespace values_internal

// A typed call that is under way. Movable; one thread at a time.
template <typename R, typename CallFuture>
class TypedFuture {
 public:
  TypedFuture(std::string function, std::vector<UntypedReference> references, CallFuture future)
      : function_(std::move(function)),
        references_(std::move(references)),
        future_(std::move(future)) {}

  // Future's, with the result instead of a Response.
  values_internal::AnswerOf<R> Get() {
    return values_internal::ReadAnswer<R>(function_, future_.Get());
  }
  bool Wait(absl::Duration limit) { return future_.Wait(limit); }
  bool Cancel() { return future_.Cancel(); }

 private:
  std::string function_;
  std::vector<UntypedReference> references_;  // what the call may still look for
  CallFuture future_;
};

// A function of Signature, such as double(std::string), on a worker (Caller: a Client) or on all
// workers of a ClientGroup. A value; valid while the caller is, from any thread.
template <typename Signature, typename Caller>
class TypedFunction;

template <typename R, typename... Parameters, typename Caller>
class TypedFunction<R(Parameters...), Caller> {
 public:
  using Result = values_internal::Traveling<R>;
  using Arguments = std::tuple<values_internal::Traveling<Parameters>...>;
  using Answer = values_internal::AnswerOf<Result>;

  // "(f64[:], f64[:]) -> f64".
  static std::string Signature() { return values_internal::SignatureOf<Result, Arguments>(); }

  const std::string& name() const { return function_.name(); }
  // The same function, called with these options.
  TypedFunction With(const CallOptions& options) const {
    return TypedFunction(caller_, function_, options);
  }

  // Calls and waits: Client::Invoke. Arguments of a Client's call are copied once, into the
  // request. A result with arrays that is larger than the request needs
  // CallOptions::response_capacity.
  Answer operator()(const values_internal::Traveling<Parameters>&... arguments) const {
    const auto write = [&](std::byte* to) { Write(to, arguments...); };
    return values_internal::ReadAnswer<Result>(
        name(),
        caller_->Invoke(function_, Input::WrittenBy(write, SizeOf(arguments...)), options_));
  }

  // Starts a call: Client::InvokeAsync. The arguments are not needed any more when it returns.
  auto Start(const values_internal::Traveling<Parameters>&... arguments) const {
    const auto write = [&](std::byte* to) { Write(to, arguments...); };
    auto future =
        caller_->InvokeAsync(function_, Input::WrittenBy(write, SizeOf(arguments...)), options_);
    std::vector<UntypedReference> references;
    (AddReference(arguments, &references), ...);
    return TypedFuture<Result, decltype(future)>(name(), std::move(references), std::move(future));
  }

 private:
  friend Caller;
  template <typename, typename>
  friend class TypedFunction;

  using Handle = typename Caller::FunctionHandle;
  using Input = typename Caller::Input;

  TypedFunction(Caller* caller, Handle function, const CallOptions& options = {})
      : caller_(caller), function_(std::move(function)), options_(options) {}

  static std::size_t SizeOf(const values_internal::Traveling<Parameters>&... arguments) {
    return (std::size_t{0} + ... + Value<values_internal::Traveling<Parameters>>::Size(arguments));
  }
  template <typename T>
  static void AddReference([[maybe_unused]] const T& argument,
                           [[maybe_unused]] std::vector<UntypedReference>* references) {
    if constexpr (std::is_base_of_v<UntypedReference, T>) references->push_back(argument);
  }
  static void Write([[maybe_unused]] std::byte* to,
                    const values_internal::Traveling<Parameters>&... arguments) {
    ((to = Value<values_internal::Traveling<Parameters>>::Write(arguments, to)), ...);
  }
  Caller* caller_;
  Handle function_;
  CallOptions options_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_TYPED_CALL_H_
