#include "src/invoke/function/function_registry.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/invoke/function/signature.h"

namespace invoker {
namespace {

// Replaces whatever the function wrote by a message of ours.
template <typename... Args>
CallOutcome BrokenContract(absl::Span<char> error, const char* format, Args... args) {
  CallOutcome outcome;
  outcome.code = INVOKER_FAILED;
  std::snprintf(error.data(), error.size(), format, args...);
  outcome.error_size = strnlen(error.data(), error.size());
  return outcome;
}

}  // namespace

absl::Status FunctionRegistry::CheckAdd(const FunctionEntry& entry) const {
  if (!function_internal::IsValidName(entry.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "function name \"", absl::CHexEscape(entry.name), "\" (from ", entry.library,
        ") is not allowed: use 1 to ", INVOKER_MAX_NAME, " characters out of A-Z a-z 0-9 _ . -"));
  }
  if (entry.function == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "function \"", entry.name, "\" (from ", entry.library, ") is a null pointer: ",
        "INVOKER_CONCURRENCY, INVOKER_DOC or a table names it, and nothing before that "
        "defines it"));
  }
  if (entry.concurrency > kMaxConcurrency) {
    return absl::InvalidArgumentError(absl::StrCat(
        "function \"", entry.name, "\" (from ", entry.library, ") has a concurrency of ",
        entry.concurrency, "; at most ", kMaxConcurrency, " is possible"));
  }
  if (!entry.signature.empty()) {
    if (absl::Status status = Signature::Parse(entry.signature).status(); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("function \"", entry.name, "\" (from ",
                                                     entry.library, "): ", status.message()));
    }
  }
  if (const auto taken = ids_.find(entry.name); taken != ids_.end()) {
    return absl::AlreadyExistsError(absl::StrCat(
        "function \"", entry.name, "\" is defined twice: by ", entries_[taken->second].library,
        " and by ", entry.library, "; rename one of them, or load only one of the libraries"));
  }
  if (entries_.size() >= kMaxFunctions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("function \"", entry.name, "\" (from ", entry.library,
                     ") is one too many: a worker offers at most ", kMaxFunctions));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::uint16_t> FunctionRegistry::Add(FunctionEntry entry) {
  if (absl::Status status = CheckAdd(entry); !status.ok()) return status;
  // In its one spelling, by which callers compare it.
  if (!entry.signature.empty()) entry.signature = Signature::Parse(entry.signature)->ToString();
  const auto id = static_cast<std::uint16_t>(entries_.size());
  ids_.emplace(entry.name, id);
  entries_.push_back(std::move(entry));
  return id;
}

absl::Status FunctionRegistry::AddAll(std::vector<FunctionEntry> entries) {
  const std::size_t size_before = entries_.size();
  for (FunctionEntry& entry : entries) {
    if (absl::Status status = Add(std::move(entry)).status(); !status.ok()) {
      for (std::size_t i = size_before; i < entries_.size(); ++i) ids_.erase(entries_[i].name);
      entries_.resize(size_before);
      return status;
    }
  }
  return absl::OkStatus();
}

absl::optional<std::uint16_t> FunctionRegistry::FindId(absl::string_view name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) return absl::nullopt;
  return found->second;
}

CallOutcome RunFunction(const FunctionEntry& entry, absl::Span<const std::uint8_t> input,
                        absl::Span<std::uint8_t> output, absl::Span<char> error) {
  // All of it, so that nothing of an earlier call's message can show through.
  std::memset(error.data(), 0, error.size());
  CallOutcome outcome;
  const std::int64_t size =
      RunFunctionCleared(entry, input, output, error, &outcome, nullptr, nullptr);
  if (size < 0) return outcome;
  outcome.kind = CallOutcome::Kind::kOk;
  outcome.output_size = static_cast<std::uint64_t>(size);
  return outcome;
}

CallOutcome JudgeException(const std::exception* exception, absl::Span<char> error) {
  if (exception == nullptr) return BrokenContract(error, "the function let an exception out");
  return BrokenContract(error, "the function let an exception out: %s", exception->what());
}

CallOutcome JudgeUndeferred(absl::Span<char> error) {
  return BrokenContract(error,
                        "the function says that it answers later, and has not deferred its call");
}

CallOutcome JudgeFailure(std::int64_t returned, const invoker_call& call) {
  const absl::Span<char> error(call.error, call.error_capacity);
  const std::size_t capacity = call.output_capacity;
  CallOutcome outcome;
  if (returned >= 0) {
    return BrokenContract(error,
                          "the function claims to have written %lld bytes, but had room for %zu",
                          static_cast<long long>(returned), capacity);
  }
  if (returned == INVOKER_OUTPUT_TOO_SMALL) {
    if (call.output_needed <= capacity) {
      return BrokenContract(error,
                            "the function says that its output is too small, but needs %llu bytes "
                            "and had room for %zu",
                            static_cast<unsigned long long>(call.output_needed), capacity);
    }
    outcome.kind = CallOutcome::Kind::kOutputTooSmall;
    outcome.output_needed = call.output_needed;
    return outcome;
  }
  if (call.services != nullptr && (returned == INVOKER_DEFERRED || returned == INVOKER_NO_ROOM)) {
    outcome.kind =
        returned == INVOKER_DEFERRED ? CallOutcome::Kind::kDeferred : CallOutcome::Kind::kNoRoom;
    return outcome;
  }
  if (returned != INVOKER_FAILED &&
      (returned > INVOKER_APPLICATION_CODE_MAX || returned < INVOKER_APPLICATION_CODE_MIN)) {
    return BrokenContract(
        error, "the function returned %lld, which is not a code that a function may return",
        static_cast<long long>(returned));
  }
  outcome.code = static_cast<std::int32_t>(returned);
  error.back() = '\0';
  outcome.error_size = strnlen(error.data(), error.size());
  if (outcome.error_size == 0) {
    outcome.error_size = BrokenContract(error, "the function failed without a message").error_size;
  }
  return outcome;
}

}  // namespace invoker
