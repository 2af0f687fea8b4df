// Calls a function that has rFaaS's signature as if it had ours.
//
// Such a function is not told how much room it has. It is given the call's own output memory, like
// any other; what it returns beyond the room it has written into memory that is not the call's. So
// the process is not to be trusted any more, and its owner, if it has said so, is told before
// anything else happens.

#ifndef INVOKER_SRC_INVOKE_FUNCTION_RFAAS_FUNCTION_H_
#define INVOKER_SRC_INVOKE_FUNCTION_RFAAS_FUNCTION_H_

#include <cstdint>
#include <string>

#include "invoker/function.h"

namespace invoker {

// Returns the number of bytes that it has written to `result`. It may change its `arguments`, but
// no more than `size` bytes of them.
using RfaasSignature = uint32_t (*)(void* arguments, uint32_t size, void* result);

// Told, on the thread that called, that `function` has written `written` bytes into room for
// `capacity`. May end the process; if it returns, the call fails.
using OverrunHandler = void (*)(const char* function, uint64_t written, uint64_t capacity);

struct RfaasFunction {
  std::string name;
  RfaasSignature function = nullptr;
  OverrunHandler on_overrun = nullptr;  // nullptr: nobody is told
};

// The `function` of a FunctionEntry whose `context` is an RfaasFunction, which must outlive it.
int64_t CallRfaasFunction(invoker_call* call);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FUNCTION_RFAAS_FUNCTION_H_
