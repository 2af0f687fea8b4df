// A function as a worker offers it.

#ifndef INVOKER_SRC_INVOKE_FUNCTION_ENTRY_H_
#define INVOKER_SRC_INVOKE_FUNCTION_ENTRY_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "invoker/function.h"

namespace invoker {

struct FunctionEntry {
  std::string name;  // one that function.h allows
  invoker_function function = nullptr;
  void* context = nullptr;  // handed to the function in invoker_call; outlives the worker
  std::string doc;          // one line for people, often empty
  std::string library;      // where it came from, for messages
  // What travels (docs/reference/typed_calls.md); empty: bytes.
  std::string signature = {};
  uint32_t concurrency = 0;  // invoker_entry's
  // Whether a request only asks for more of an earlier call's answer, and so is taken while the
  // worker drains, too. Null: none does.
  bool (*asks_for_more)(absl::Span<const std::uint8_t> input) = nullptr;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FUNCTION_ENTRY_H_
