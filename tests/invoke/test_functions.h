// Functions that the tests of this directory call, as a registry of their own each time.

#ifndef INVOKER_TESTS_INVOKE_TEST_FUNCTIONS_H_
#define INVOKER_TESTS_INVOKE_TEST_FUNCTIONS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "src/invoke/function/function_registry.h"

namespace invoker {

// What the functions share with the test that offers them.
struct TestFunctions {
  std::atomic<uint64_t> calls{0};     // calls of functions that count
  absl::Notification entered;         // "gate" runs
  absl::Notification open;            // "gate" may return
  absl::Notification second_entered;  // "second_gate" runs
  absl::Notification second_open;     // "second_gate" may return
  // Several executors may enter a gate at the same time, and one of them says so.
  std::once_flag has_entered;
  std::once_flag has_entered_second;
  // If there is one, "echo" does that too.
  std::function<void(const invoker_call&)> in_echo;
};

enum TestFunctionId : uint16_t { kEcho = 0, kGate = 1, kBurn = 2, kFail = 3, kSecondGate = 4 };

// `functions` outlives the registry.
inline FunctionRegistry MakeTestFunctions(TestFunctions* functions) {
  FunctionRegistry registry;
  const auto add = [&](const char* name, invoker_function function) {
    FunctionEntry entry;
    entry.name = name;
    entry.function = function;
    entry.context = functions;
    EXPECT_TRUE(registry.Add(entry).ok());
  };
  add("echo", [](invoker_call* call) -> int64_t {
    auto* functions = static_cast<TestFunctions*>(call->context);
    functions->calls.fetch_add(1);
    if (functions->in_echo) functions->in_echo(*call);
    if (call->input_size > call->output_capacity) {
      call->output_needed = call->input_size;
      return INVOKER_OUTPUT_TOO_SMALL;
    }
    memcpy(call->output, call->input, call->input_size);
    return static_cast<int64_t>(call->input_size);
  });
  // Returns when the test says so.
  add("gate", [](invoker_call* call) -> int64_t {
    auto* functions = static_cast<TestFunctions*>(call->context);
    functions->calls.fetch_add(1);
    std::call_once(functions->has_entered, [&] { functions->entered.Notify(); });
    functions->open.WaitForNotification();
    return 0;
  });
  // Keeps the executor busy for as many turns of a loop as the input says.
  add("burn", [](invoker_call* call) -> int64_t {
    static_cast<TestFunctions*>(call->context)->calls.fetch_add(1);
    uint64_t turns = 0;
    memcpy(&turns, call->input, std::min<uint64_t>(sizeof(turns), call->input_size));
    for (volatile uint64_t i = 0; i < turns; i = i + 1) {
    }
    return 0;
  });
  add("fail", [](invoker_call* call) -> int64_t {
    static_cast<TestFunctions*>(call->context)->calls.fetch_add(1);
    strncpy(call->error, "it did not work", call->error_capacity - 1);
    return -1234;
  });
  add("second_gate", [](invoker_call* call) -> int64_t {
    auto* functions = static_cast<TestFunctions*>(call->context);
    std::call_once(functions->has_entered_second, [&] { functions->second_entered.Notify(); });
    functions->second_open.WaitForNotification();
    return 0;
  });
  return registry;
}

}  // namespace invoker

#endif  // INVOKER_TESTS_INVOKE_TEST_FUNCTIONS_H_
