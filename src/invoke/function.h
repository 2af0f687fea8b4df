/* The contract between a worker and the functions it runs: a C ABI, and a C++17 macro over it.
 *
 * A function library is an ordinary shared library that exports invoker_get_module(). In C++, a
 * function of typed values, and one of bytes:
 *
 *   #include "invoker/function.h"
 *
 *   INVOKER_FUNCTION(dot, (invoker::ArrayView<const double> a, invoker::ArrayView<const double> b)
 *                             ->double) {
 *     if (a.size() != b.size()) throw std::invalid_argument("dot: the arrays differ in length");
 *     return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
 *   }
 *
 *   INVOKER_FUNCTION(reverse, input, output) {
 *     if (!output.Resize(input.size())) return invoker::Result::TooSmall(input.size());
 *     std::reverse_copy(input.begin(), input.end(), output.data());
 *     return invoker::Result::Ok();
 *   }
 *
 * In C the table of functions is written by hand; docs/guide/functions.md shows one, and how to
 * build both.
 *
 * The worker owns the input, output and error buffers; they hold until the function has answered,
 * and no pointer into them may be kept for longer. A function that returns its answer runs on one
 * thread from beginning to end; one with a Reply may answer on any other. Several executors, and
 * several threads of one (INVOKER_CONCURRENCY), may call the same function at the same time:
 * functions must be thread-safe.
 *
 * This header needs no library of Invoker. It compiles as C11 and as C++17, and may be copied
 * together with the headers that it includes. */

#ifndef INVOKER_SRC_INVOKE_FUNCTION_H_
#define INVOKER_SRC_INVOKE_FUNCTION_H_

#include "invoker/function_abi.h"

#ifdef __cplusplus
/* Defined below. INVOKER_FUNCTION makes every file that uses it emit the (merged) definition; a
 * program that includes this header only for the types gets none. */
extern "C" INVOKER_EXPORT inline const invoker_module* invoker_get_module(void);

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "invoker/typed_function.h"

namespace invoker {

// Hidden: every library has its own copy of all that follows. Otherwise the loader would merge the
// list of functions of all libraries in the process (g++ makes such objects "unique"), and a
// library could end up running another one's, differently versioned, code.
#pragma GCC visibility push(hidden)
inline namespace function_abi_v1 {

// The bytes that the caller sent.
class Input {
 public:
  Input(const void* data, std::size_t size)
      : data_(static_cast<const std::uint8_t*>(data)), size_(size) {}

  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::uint8_t* begin() const { return data_; }
  const std::uint8_t* end() const { return data_ + size_; }
  std::uint8_t operator[](std::size_t index) const { return data_[index]; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

// Room for the answer, empty at first. Asking for more than capacity() writes nothing and makes
// the call end as "too small", with the size asked for, if the function then returns Ok().
class Output {
 public:
  Output(void* data, std::size_t capacity, const invoker_call* call = nullptr)
      : data_(static_cast<std::uint8_t*>(data)), capacity_(capacity), call_(call) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  std::uint8_t* data() { return data_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t size() const { return size_; }

  // Says how long the answer is, without touching its bytes. False if that is beyond capacity().
  bool Resize(std::size_t size) {
    size_ = size;
    return size_ <= capacity_;
  }

  // Copies `size` bytes behind those already there. False if they do not fit; the sizes of
  // further ones still add up, so that the caller learns how much room the whole answer needs.
  bool Append(const void* data, std::size_t size) {
    const std::size_t old_size = size_;
    if (__builtin_add_overflow(size_, size, &size_)) size_ = SIZE_MAX;
    if (size > capacity_ || size_ > capacity_) return false;
    if (size != 0) std::memcpy(data_ + old_size, data, size);
    return true;
  }
  bool Append(std::string_view text) { return Append(text.data(), text.size()); }

  // What the function can ask about its call; only of an output that a worker gave.
  Context context() const { return Context(call_); }
  // Context::cancelled.
  bool cancelled() const { return call_ != nullptr && INVOKER_CALL_CANCELLED(call_); }

 private:
  std::uint8_t* data_;
  std::size_t capacity_;
  const invoker_call* call_;
  std::size_t size_ = 0;
};

// How a call ended.
class Result {
 public:
  static Result Ok() { return Result(0, 0, std::string()); }

  // The caller gets the message, cut to the worker's buffer (255 bytes always fit).
  static Result Error(std::string message) { return Result(INVOKER_FAILED, 0, std::move(message)); }

  // With a code of the application's own, INVOKER_APPLICATION_CODE_MIN to _MAX, that tells programs
  // what the message tells people.
  static Result Error(std::int32_t code, std::string message) {
    return Result(code < 0 ? code : INVOKER_FAILED, 0, std::move(message));
  }

  // The caller may try again with room for `needed` bytes.
  static Result TooSmall(std::size_t needed) {
    return Result(INVOKER_OUTPUT_TOO_SMALL, needed, std::string());
  }

  std::int64_t code() const { return code_; }
  std::size_t needed() const { return needed_; }
  const std::string& message() const { return message_; }

 private:
  Result(std::int64_t code, std::size_t needed, std::string message)
      : code_(code), needed_(needed), message_(std::move(message)) {}

  std::int64_t code_;
  std::size_t needed_;
  std::string message_;
};

namespace function_internal {

constexpr bool IsValidName(std::string_view name) {
  if (name.empty() || name.size() > INVOKER_MAX_NAME) return false;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !digit && c != '_' && c != '.' && c != '-') return false;
  }
  return true;
}

// The macros make a string of what they are given; if that was a string already, its quotes go
// here.
constexpr std::string_view Unquote(std::string_view name) {
  const bool quoted = name.size() >= 2 && name.front() == '"' && name.back() == '"';
  return quoted ? name.substr(1, name.size() - 2) : name;
}

// Whether `Body` is one of bytes: callable as Result(Input, Output&). Any other is typed.
template <typename Body>
inline constexpr bool kIsOfBytes = std::is_invocable_r_v<Result, const Body&, Input, Output&>;

// "" for a body of bytes.
template <typename Body>
std::string SignatureOf() {
  if constexpr (kIsOfBytes<Body>) {
    return "";
  } else {
    return TypedOf<typename FunctionOf<Body>::Type>::Signature();
  }
}

template <typename Body>
std::int64_t CallOfBytes(const Body& body, invoker_call* call) {
  Output output(call->output, call->output_capacity, call);
  Result result = body(Input(call->input, call->input_size), output);
  if (result.code() == 0) {
    if (output.size() <= output.capacity()) return static_cast<std::int64_t>(output.size());
    result = Result::TooSmall(output.size());
  }
  call->output_needed = result.needed();
  SetError(call, result.message());
  return result.code();
}

template <typename Body>
std::int64_t Call(const Body& body, invoker_call* call) noexcept {
  try {
    if constexpr (kIsOfBytes<Body>) {
      return CallOfBytes(body, call);
    } else {
      return TypedOf<typename FunctionOf<Body>::Type>::Call(body, call);
    }
  } catch (const Context::NoRoom& no_room) {
    call->output_needed = no_room.needed;
    return INVOKER_OUTPUT_TOO_SMALL;
  } catch (const CallError& error) {
    SetError(call, error.what());
    return error.code() < 0 ? error.code() : INVOKER_FAILED;
  } catch (const std::exception& exception) {
    SetError(call, exception.what());
  } catch (...) {
    SetError(call, "the function threw something that is not a std::exception");
  }
  return INVOKER_FAILED;
}

// One function of this library, in a list that begins with the last one defined: so registering
// touches no other file's objects, whose initialization may be still to come. Lives for ever.
struct Registration {
  Registration(std::string_view quoted_name, invoker_function function,
               std::string its_signature = "");

  char name[INVOKER_MAX_NAME + 1] = {};
  std::string signature;  // "": of bytes
  invoker_entry entry;
  Registration* previous;
  const invoker_module* (*getter)(void);  // keeps the definition of invoker_get_module alive
};

inline Registration* last_registration = nullptr;

inline Registration::Registration(std::string_view quoted_name, invoker_function function,
                                  std::string its_signature)
    : signature(std::move(its_signature)),
      entry{},
      previous(last_registration),
      getter(&invoker_get_module) {
  entry.name = name;
  entry.function = function;
  entry.signature = signature.empty() ? nullptr : signature.c_str();
  Unquote(quoted_name).copy(name, INVOKER_MAX_NAME);
  last_registration = this;
}

// The entry of that name. Where there is none, the worker refuses the library for a function that
// nothing defines.
inline invoker_entry& EntryOf(std::string_view quoted_name) {
  for (Registration* at = last_registration; at != nullptr; at = at->previous) {
    if (Unquote(quoted_name) == at->name) return at->entry;
  }
  return (new Registration(quoted_name, nullptr))->entry;
}

inline const invoker_module* Module() {
  static const std::vector<invoker_entry> entries = [] {
    std::vector<invoker_entry> list;
    for (const Registration* at = last_registration; at != nullptr; at = at->previous) {
      list.push_back(at->entry);
    }
    std::reverse(list.begin(), list.end());
    return list;
  }();
  static const invoker_module module = {INVOKER_ABI_VERSION, sizeof(invoker_module),
                                        sizeof(invoker_entry),
                                        static_cast<std::uint32_t>(entries.size()), entries.data()};
  return &module;
}

}  // namespace function_internal
}  // namespace function_abi_v1
#pragma GCC visibility pop
}  // namespace invoker

// Not a single static here: they would take the exported visibility of this function.
extern "C" inline const invoker_module* invoker_get_module(void) {
  return ::invoker::function_internal::Module();
}

#define INVOKER_INTERNAL_CHECK_NAME(name)                                                     \
  static_assert(                                                                              \
      ::invoker::function_internal::IsValidName(::invoker::function_internal::Unquote(name)), \
      "a function's name is 1 to 128 characters out of A-Z a-z 0-9 _ . - ; quote "            \
      "a name with dashes, or clang-format puts spaces around them")

#define INVOKER_INTERNAL_REGISTER(name, id, ...) \
  INVOKER_INTERNAL_CHECK_NAME(name);             \
  static ::invoker::function_internal::Registration invoker_registration_##id(name, __VA_ARGS__)

#define INVOKER_INTERNAL_REGISTER_EXPANDED(name, id, function) \
  INVOKER_INTERNAL_REGISTER(name, id, function)

// `(T a, U b) -> R` begins with parentheses: then the macro that INVOKER_INTERNAL_AFTER names is
// called, and makes two arguments and more of what was one.
#define INVOKER_INTERNAL_AFTER(...) ,
#define INVOKER_INTERNAL_CHOSEN(a, b, choice, ...) choice
#define INVOKER_INTERNAL_CHOOSE(...) INVOKER_INTERNAL_CHOSEN(__VA_ARGS__, TYPED, BYTES, )
#define INVOKER_INTERNAL_FORM(first, ...) INVOKER_INTERNAL_FORM_OF(INVOKER_INTERNAL_AFTER first)
#define INVOKER_INTERNAL_FORM_OF(...) INVOKER_INTERNAL_CHOOSE(__VA_ARGS__)

#define INVOKER_INTERNAL_TYPED(name, id, ...)                                     \
  static auto invoker_body_##id __VA_ARGS__;                                      \
  static std::int64_t invoker_call_##id(invoker_call* call) {                     \
    return ::invoker::function_internal::Call(&invoker_body_##id, call);          \
  }                                                                               \
  INVOKER_INTERNAL_REGISTER(                                                      \
      name, id, &invoker_call_##id,                                               \
      ::invoker::function_internal::SignatureOf<decltype(&invoker_body_##id)>()); \
  static auto invoker_body_##id __VA_ARGS__

#define INVOKER_INTERNAL_BYTES(name, id, input, output)                                          \
  static ::invoker::Result invoker_body_##id(::invoker::Input input, ::invoker::Output& output); \
  static std::int64_t invoker_call_##id(invoker_call* call) {                                    \
    return ::invoker::function_internal::Call(&invoker_body_##id, call);                         \
  }                                                                                              \
  INVOKER_INTERNAL_REGISTER(name, id, &invoker_call_##id);                                       \
  static ::invoker::Result invoker_body_##id([[maybe_unused]] ::invoker::Input input,            \
                                             [[maybe_unused]] ::invoker::Output& output)

#define INVOKER_INTERNAL_DEFINE(form, name, id, ...) \
  INVOKER_INTERNAL_DEFINE_FORM(form, name, id, __VA_ARGS__)
#define INVOKER_INTERNAL_DEFINE_FORM(form, name, id, ...) \
  INVOKER_INTERNAL_##form(name, id, __VA_ARGS__)

// Defines and registers a function; its body follows. `name` may be quoted, and need not be an
// identifier: resize, image.resize, "image.resize-v2". A std::exception that leaves the body
// becomes an error with its what(). Any number per file, any number of files per library, at
// namespace scope.
//
//   INVOKER_FUNCTION(name, (T a, U b) -> R)   typed: T, U and R are types of values.h, or R is
//                                             void; a first parameter may be a Context, or a
//                                             Reply<R>, for a function that answers later
//   INVOKER_FUNCTION(name, input, output)     of bytes: `input` and `output` name an Input and an
//                                             Output&, and the body returns a Result
//
// Views among the parameters point into the request, and hold during the call.
#define INVOKER_FUNCTION(name, ...) \
  INVOKER_INTERNAL_DEFINE(INVOKER_INTERNAL_FORM(__VA_ARGS__, ), #name, __COUNTER__, __VA_ARGS__)

// Both say more of the function of that name, which this file has defined before; otherwise no
// worker loads the library. A semicolon follows.
//
// Has the executor run the function on up to so many threads at a time, beside other functions: for
// one that waits.
#define INVOKER_CONCURRENCY(name, threads) \
  INVOKER_INTERNAL_SET(#name, concurrency, threads, __COUNTER__)
// One line for people, a string literal: `invoker functions --long` shows it.
#define INVOKER_DOC(name, text) INVOKER_INTERNAL_SET(#name, doc, text, __COUNTER__)
#define INVOKER_INTERNAL_SET(name, member, value, id) \
  INVOKER_INTERNAL_SET_EXPANDED(name, member, value, id)
#define INVOKER_INTERNAL_SET_EXPANDED(name, member, value, id) \
  [[maybe_unused]] static const bool invoker_##member##_##id = \
      (::invoker::function_internal::EntryOf(name).member = (value), true)

// Registers an `invoker_function` that exists already. A semicolon follows.
#define INVOKER_REGISTER(name, function) \
  INVOKER_INTERNAL_REGISTER_EXPANDED(#name, __COUNTER__, function)

#else  // C

/* A library written in C defines this. */
INVOKER_EXPORT const invoker_module* invoker_get_module(void);

#endif

#endif  // INVOKER_SRC_INVOKE_FUNCTION_H_
