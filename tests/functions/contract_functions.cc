// Functions that break the contract of function.h; the worker must notice.

#include <cstring>
#include <stdexcept>

#include "invoker/function.h"

namespace {

// Claims to have written one byte more than there was room for.
std::int64_t Overclaim(invoker_call* call) {
  return static_cast<std::int64_t>(call->output_capacity) + 1;
}

// Returns a code out of the reserved range.
std::int64_t ReservedCode(invoker_call*) { return -500; }

// Says that the output is too small, but not how much it needs.
std::int64_t TooSmallWithoutSize(invoker_call*) { return INVOKER_OUTPUT_TOO_SMALL; }

// Fails without a word.
std::int64_t Silent(invoker_call*) { return INVOKER_FAILED; }

// Its message fills the buffer and has no end.
std::int64_t Unterminated(invoker_call* call) {
  std::memset(call->error, 'x', call->error_capacity);
  return INVOKER_FAILED;
}

// Lets an exception out through the C ABI.
std::int64_t ThrowThrough(invoker_call*) { throw std::runtime_error("not caught by any wrapper"); }

}  // namespace

INVOKER_REGISTER(broken.overclaim, Overclaim);
INVOKER_REGISTER(broken.reserved_code, ReservedCode);
INVOKER_REGISTER(broken.too_small_without_size, TooSmallWithoutSize);
INVOKER_REGISTER(broken.silent, Silent);
INVOKER_REGISTER(broken.unterminated, Unterminated);
INVOKER_REGISTER(broken.throw_through, ThrowThrough);
