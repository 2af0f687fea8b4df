// The functions that a worker offers, and how one of them is run.
//
// While nobody adds to it, the const methods and RunFunction may be called from any number of
// threads. An executor has a copy of its own, which its thread alone reads, and adds to between two
// calls (Executor::AddFunctions). Functions are added, never removed or changed, so that an id
// holds for ever. The registry does not keep the libraries loaded that its entries point into:
// the program that loaded them unloads them after the last executor stopped.

#ifndef INVOKER_SRC_INVOKE_FUNCTION_FUNCTION_REGISTRY_H_
#define INVOKER_SRC_INVOKE_FUNCTION_FUNCTION_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "invoker/function.h"
#include "invoker/function_entry.h"

namespace invoker {

class FunctionRegistry {
 public:
  // Ids are 16 bits on the wire; one is left over to mean "none".
  static constexpr std::size_t kMaxFunctions = 65535;
  // Threads of one function.
  static constexpr std::uint32_t kMaxConcurrency = 1024;

  // Registers a function under the next id: 0, 1, 2, and so on. Fails, and registers nothing, for a
  // name that is not allowed (function.h) or taken already, for a null function, for a signature
  // that is none, and when full.
  absl::StatusOr<std::uint16_t> Add(FunctionEntry entry);

  // Registers all of them, in this order, or, if one is refused, none.
  absl::Status AddAll(std::vector<FunctionEntry> entries);

  // What Add would answer for it, without adding.
  absl::Status CheckAdd(const FunctionEntry& entry) const;

  // Null if no function has this id. The entry stays where it is until the registry is added to.
  const FunctionEntry* Find(std::uint16_t id) const {
    return id < entries_.size() ? &entries_[id] : nullptr;
  }

  absl::optional<std::uint16_t> FindId(absl::string_view name) const;

  std::size_t size() const { return entries_.size(); }

  // In the order of their ids.
  const std::vector<FunctionEntry>& entries() const { return entries_; }

 private:
  std::vector<FunctionEntry> entries_;
  absl::flat_hash_map<std::string, std::uint16_t> ids_;
};

// How a call ended, once what the function claims has been checked.
struct CallOutcome {
  enum class Kind {
    kOk,              // `output_size` bytes of the output are the answer
    kOutputTooSmall,  // `output_needed` bytes would do; more than the capacity
    kFailed,          // the message is in the error buffer, `code` is the function's
    kDeferred,        // the answer comes later
    kNoRoom,          // there is no room for a call that is answered later
  };

  Kind kind = Kind::kFailed;
  std::uint64_t output_size = 0;
  std::uint64_t output_needed = 0;
  std::int32_t code = 0;       // INVOKER_FAILED, or one of the application's codes
  std::size_t error_size = 0;  // length of the message, without the NUL
};

// Runs a function on the calling thread. `output` is where the answer goes; neither it nor `input`
// may be null, even if empty, nor overlap. `error` needs INVOKER_MIN_ERROR_CAPACITY bytes, is
// cleared first, and holds a NUL-terminated message after a failure. A function that breaks the
// contract (claims more than the capacity, returns a code that means nothing, throws, does not
// terminate its message) counts as failed, with a message that says so; what it did to memory is
// beyond checking. Allocates nothing itself.
CallOutcome RunFunction(const FunctionEntry& entry, absl::Span<const std::uint8_t> input,
                        absl::Span<std::uint8_t> output, absl::Span<char> error);

// What a call that has returned, or thrown, without success comes to. Without `services` in the
// call none can be deferred.
CallOutcome JudgeFailure(std::int64_t returned, const invoker_call& call);
// The function has returned INVOKER_DEFERRED, and has not called `defer`.
CallOutcome JudgeUndeferred(absl::Span<char> error);
// `exception` is nullptr if it was of no known type.
CallOutcome JudgeException(const std::exception* exception, absl::Span<char> error);

// RunFunction for who calls often: `error` is all zeros already, and is so again after success.
// Returns the output's size, or less than 0: then `failure` is set, and the caller clears `error`.
// The last two go into invoker_call.
inline std::int64_t RunFunctionCleared(const FunctionEntry& entry,
                                       absl::Span<const std::uint8_t> input,
                                       absl::Span<std::uint8_t> output, absl::Span<char> error,
                                       CallOutcome* failure, const invoker_services* services,
                                       void* worker) {
  invoker_call call;
  call.struct_size = sizeof(call);
  call.reserved = 0;
  call.context = entry.context;
  call.input = input.data();
  call.input_size = input.size();
  call.output = output.data();
  call.output_capacity = output.size();
  call.output_needed = 0;
  call.error = error.data();
  call.error_capacity = error.size();
  call.services = services;
  call.worker = worker;
  std::int64_t returned = INVOKER_FAILED;
  try {
    returned = entry.function(&call);
  } catch (const std::exception& exception) {
    *failure = JudgeException(&exception, error);
    return -1;
  } catch (...) {
    *failure = JudgeException(nullptr, error);
    return -1;
  }
  // What the function may have done to its copy of the buffers is not looked at.
  if (ABSL_PREDICT_FALSE(returned < 0 || static_cast<std::uint64_t>(returned) > output.size())) {
    call.output_capacity = output.size();
    call.error = error.data();
    call.error_capacity = error.size();
    *failure = JudgeFailure(returned, call);
    return -1;
  }
  // A message that belongs to no failure.
  if (ABSL_PREDICT_FALSE(error.front() != 0)) std::memset(error.data(), 0, error.size());
  return returned;
}

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FUNCTION_FUNCTION_REGISTRY_H_
