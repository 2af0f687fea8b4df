/* The contract between a worker and the functions it runs: a C ABI, and a C++17 macro over it.
 *
 * A function library is an ordinary shared library that exports invoker_get_module(). In C++:
 *
 *   #include "invoker/function.h"
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
 * The worker owns the input, output and error buffers; they hold during the call only, so a
 * function must not keep pointers into them. One call runs on one thread from beginning to end, but
 * several executors may call the same function at the same time: functions must be thread-safe.
 *
 * This header needs no other header or library of Invoker, and may be copied. It compiles as C11
 * and as C++17. */

#ifndef INVOKER_SRC_INVOKE_FUNCTION_H_
#define INVOKER_SRC_INVOKE_FUNCTION_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a change would break a library built against an older header. */
#define INVOKER_ABI_VERSION 1

/* A function's name: 1 to INVOKER_MAX_NAME characters out of A-Z a-z 0-9 _ . - */
#define INVOKER_MAX_NAME 128

/* The worker gives at least this much room for an error message, the terminating NUL included. */
#define INVOKER_MIN_ERROR_CAPACITY 256

/* What `input` and `output` are aligned to. (They lie 32 bytes into cells aligned to 64.) */
#define INVOKER_BUFFER_ALIGNMENT 32

/* Negative results. Anything between these and the application's range is reserved: the worker
 * treats it as a failure. Codes of the application's own travel to the caller as they are. */
#define INVOKER_FAILED (-1)           /* the reason is in `error` */
#define INVOKER_OUTPUT_TOO_SMALL (-2) /* `output_needed` bytes would do */
#define INVOKER_APPLICATION_CODE_MAX (-1000)
#define INVOKER_APPLICATION_CODE_MIN (-2147483647)

#define INVOKER_EXPORT __attribute__((visibility("default")))

/* One call. The worker fills in everything; the function changes what the buffers hold,
 * `output_needed`, and nothing else. Later versions may append members: `struct_size` says how many
 * bytes there are. */
typedef struct invoker_call {
  uint32_t struct_size;
  uint32_t reserved;
  void* context;            /* the `context` of the entry that was called */
  const void* input;        /* read only; never overlaps `output`; not NULL, even if empty */
  uint64_t input_size;      /* bytes */
  void* output;             /* contents undefined at first; not NULL */
  uint64_t output_capacity; /* bytes; nothing beyond may be touched */
  uint64_t output_needed;   /* 0 at first; set it before returning INVOKER_OUTPUT_TOO_SMALL */
  char* error;              /* "" at first; a NUL-terminated UTF-8 message on failure */
  uint64_t error_capacity;  /* bytes, at least INVOKER_MIN_ERROR_CAPACITY */
  /* Not in workers of the first release; INVOKER_CALL_CANCELLED looks first. Not 0: nobody waits
   * for the answer any more, since the caller has cancelled the call or its deadline has passed. To
   * be asked by a function that takes long, as often as it likes, on the thread that it was called
   * on. */
  int32_t (*cancelled)(const struct invoker_call* call);
  void* worker; /* the worker's own */
} invoker_call;

/* For functions in C: whether the call is one that nobody waits for any more. */
#define INVOKER_CALL_CANCELLED(call)                                                     \
  ((call)->struct_size >= offsetof(invoker_call, worker) && (call)->cancelled != NULL && \
   (call)->cancelled(call) != 0)

/* Returns the number of bytes written to `output`, 0 to output_capacity, or one of the negative
 * results above. Must not throw, must not end the process, and may block for as long as the caller
 * is willing to wait. */
typedef int64_t (*invoker_function)(invoker_call* call);

typedef struct invoker_entry {
  const char* name;
  invoker_function function;
  void* context;   /* handed back in invoker_call; may be NULL */
  const char* doc; /* one line for people, or NULL */
} invoker_entry;

/* What a library offers. It and all that it points to must stay until the library is unloaded. */
typedef struct invoker_module {
  uint32_t abi_version; /* INVOKER_ABI_VERSION */
  uint32_t struct_size; /* sizeof(invoker_module) */
  uint32_t entry_size;  /* sizeof(invoker_entry) */
  uint32_t count;
  const invoker_entry* entries;
} invoker_module;

#ifdef __cplusplus
/* Defined below. INVOKER_FUNCTION makes every file that uses it emit the (merged) definition; a
 * program that includes this header only for the types gets none. */
INVOKER_EXPORT inline const invoker_module* invoker_get_module(void);
}  // extern "C"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

  // Whether nobody waits for the answer any more: the caller has cancelled the call, or its
  // deadline has passed. A function that takes long may ask in its loop, on the thread that it was
  // called on, and return an error at once.
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

inline void SetError(invoker_call* call, std::string_view message) {
  if (call->error_capacity == 0) return;
  std::size_t size = message.size();
  if (size >= call->error_capacity) {
    size = call->error_capacity - 1;
    // Not in the middle of a UTF-8 character: 10xxxxxx continues one.
    while (size > 0 && (static_cast<unsigned char>(message[size]) & 0xC0) == 0x80) --size;
  }
  if (size != 0) std::memcpy(call->error, message.data(), size);
  call->error[size] = '\0';
}

// `body` is callable as Result(Input, Output&).
template <typename Body>
std::int64_t Call(const Body& body, invoker_call* call) noexcept {
  try {
    Output output(call->output, call->output_capacity, call);
    Result result = body(Input(call->input, call->input_size), output);
    if (result.code() == 0) {
      if (output.size() <= output.capacity()) return static_cast<std::int64_t>(output.size());
      result = Result::TooSmall(output.size());
    }
    call->output_needed = result.needed();
    SetError(call, result.message());
    return result.code();
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
  Registration(std::string_view quoted_name, invoker_function function);

  char name[INVOKER_MAX_NAME + 1] = {};
  invoker_entry entry;
  Registration* previous;
  const invoker_module* (*getter)(void);  // keeps the definition of invoker_get_module alive
};

inline Registration* last_registration = nullptr;

inline Registration::Registration(std::string_view quoted_name, invoker_function function)
    : entry{name, function, nullptr, nullptr},
      previous(last_registration),
      getter(&invoker_get_module) {
  Unquote(quoted_name).copy(name, INVOKER_MAX_NAME);
  last_registration = this;
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

#define INVOKER_INTERNAL_REGISTER(name, id, function) \
  INVOKER_INTERNAL_CHECK_NAME(name);                  \
  static ::invoker::function_internal::Registration invoker_registration_##id(name, function)

#define INVOKER_INTERNAL_REGISTER_EXPANDED(name, id, function) \
  INVOKER_INTERNAL_REGISTER(name, id, function)

#define INVOKER_INTERNAL_FUNCTION(name, id, input, output)                                       \
  static ::invoker::Result invoker_body_##id(::invoker::Input input, ::invoker::Output& output); \
  static std::int64_t invoker_call_##id(invoker_call* call) {                                    \
    return ::invoker::function_internal::Call(&invoker_body_##id, call);                         \
  }                                                                                              \
  INVOKER_INTERNAL_REGISTER(name, id, &invoker_call_##id);                                       \
  static ::invoker::Result invoker_body_##id([[maybe_unused]] ::invoker::Input input,            \
                                             [[maybe_unused]] ::invoker::Output& output)

#define INVOKER_INTERNAL_FUNCTION_EXPANDED(name, id, input, output) \
  INVOKER_INTERNAL_FUNCTION(name, id, input, output)

// Defines and registers a function; the body follows and returns an invoker::Result. `name` may be
// quoted, and need not be an identifier: resize, image.resize, "image.resize-v2". `input` and
// `output` name the body's parameters. A std::exception that leaves the body becomes an error with
// its what(). Any number per file, any number of files per library, at namespace scope.
#define INVOKER_FUNCTION(name, input, output) \
  INVOKER_INTERNAL_FUNCTION_EXPANDED(#name, __COUNTER__, input, output)

// Registers an `invoker_function` that exists already. A semicolon follows.
#define INVOKER_REGISTER(name, function) \
  INVOKER_INTERNAL_REGISTER_EXPANDED(#name, __COUNTER__, function)

#else  // C

/* A library written in C defines this. */
INVOKER_EXPORT const invoker_module* invoker_get_module(void);

#endif

#endif  // INVOKER_SRC_INVOKE_FUNCTION_H_
