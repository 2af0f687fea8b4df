#include "src/invoke/function/function_registry.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace invoker {
namespace {

std::int64_t Nothing(invoker_call*) { return 0; }

FunctionEntry Entry(const std::string& name, const std::string& library = "a.so",
                    invoker_function function = &Nothing) {
  FunctionEntry entry;
  entry.name = name;
  entry.library = library;
  entry.function = function;
  return entry;
}

TEST(FunctionRegistryTest, IdsAreDenseInTheOrderOfRegistration) {
  FunctionRegistry registry;
  EXPECT_EQ(registry.Find(0), nullptr);
  EXPECT_EQ(*registry.Add(Entry("b")), 0);
  EXPECT_EQ(*registry.Add(Entry("a")), 1);
  EXPECT_EQ(*registry.Add(Entry("c")), 2);
  EXPECT_EQ(registry.Find(0)->name, "b");
  EXPECT_EQ(registry.Find(2)->name, "c");
  EXPECT_EQ(registry.Find(3), nullptr);
  EXPECT_EQ(registry.Find(65535), nullptr);
  EXPECT_EQ(registry.FindId("a"), 1);
  EXPECT_EQ(registry.FindId("d"), absl::nullopt);
  EXPECT_EQ(registry.size(), 3u);
}

TEST(FunctionRegistryTest, DuplicateIsRefusedAndBothLibrariesAreNamed) {
  FunctionRegistry registry;
  ASSERT_TRUE(registry.Add(Entry("echo", "first.so")).ok());
  const auto added = registry.Add(Entry("echo", "second.so"));
  EXPECT_EQ(added.status().code(), absl::StatusCode::kAlreadyExists);
  for (const char* part : {"echo", "first.so", "second.so"}) {
    EXPECT_NE(added.status().message().find(part), absl::string_view::npos) << added.status();
  }
  EXPECT_EQ(registry.size(), 1u);
}

TEST(FunctionRegistryTest, SeveralAreAddedTogetherOrNotAtAll) {
  FunctionRegistry registry;
  ASSERT_TRUE(registry.AddAll({Entry("a"), Entry("b")}).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(registry.AddAll({Entry("c"), Entry("a")})));
  EXPECT_TRUE(absl::IsAlreadyExists(registry.AddAll({Entry("c"), Entry("c")})));
  EXPECT_TRUE(absl::IsInvalidArgument(registry.AddAll({Entry("c"), Entry("d"), Entry("")})));
  EXPECT_EQ(registry.size(), 2u);
  EXPECT_EQ(registry.FindId("c"), absl::nullopt);
  // Nothing is left of what was refused.
  ASSERT_TRUE(registry.AddAll({Entry("d"), Entry("c")}).ok());
  EXPECT_EQ(registry.FindId("a"), 0);
  EXPECT_EQ(registry.FindId("b"), 1);
  EXPECT_EQ(registry.FindId("d"), 2);
  EXPECT_EQ(registry.FindId("c"), 3);
  EXPECT_TRUE(registry.AddAll({}).ok());
}

TEST(FunctionRegistryTest, OnlyNamesOfTheAllowedCharactersAreAccepted) {
  FunctionRegistry registry;
  const std::string longest(INVOKER_MAX_NAME, 'x');
  for (const std::string& name : {std::string("a"), std::string("A.b-c_9"), longest}) {
    EXPECT_TRUE(registry.Add(Entry(name)).ok()) << name;
  }
  for (const std::string& name :
       {std::string(), longest + "x", std::string("a b"), std::string("a/b"),
        std::string("\xC3\xA9"), std::string("a\0b", 3), std::string("a\n")}) {
    EXPECT_EQ(registry.Add(Entry(name)).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(registry.size(), 3u);
}

TEST(FunctionRegistryTest, NullFunctionIsRefused) {
  FunctionRegistry registry;
  EXPECT_EQ(registry.Add(Entry("null", "a.so", nullptr)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FunctionRegistryTest, HoldsExactly65535Functions) {
  FunctionRegistry registry;
  for (int i = 0; i < 65535; ++i) {
    const auto id = registry.Add(Entry("f" + std::to_string(i)));
    ASSERT_TRUE(id.ok()) << id.status();
    ASSERT_EQ(*id, i);
  }
  EXPECT_EQ(registry.Add(Entry("one_more")).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(registry.Find(65534)->name, "f65534");
  EXPECT_EQ(registry.FindId("f65534"), 65534);
  EXPECT_EQ(registry.Find(65535), nullptr);
}

class RunFunctionTest : public ::testing::Test {
 protected:
  CallOutcome Run(invoker_function function, void* context = nullptr) {
    FunctionEntry entry = Entry("f", "a.so", function);
    entry.context = context;
    std::memset(error_, 'e', sizeof(error_));  // an earlier call's message
    return RunFunction(entry, input_, absl::MakeSpan(output_), absl::MakeSpan(error_));
  }

  bool ErrorHas(const char* part) const { return std::strstr(error_, part) != nullptr; }

  std::vector<std::uint8_t> input_ = {1, 2, 3};
  std::vector<std::uint8_t> output_ = std::vector<std::uint8_t>(8);
  char error_[INVOKER_MIN_ERROR_CAPACITY];
};

TEST_F(RunFunctionTest, FunctionSeesTheBuffersAndItsContext) {
  struct Seen {
    invoker_call call;
    bool error_was_zero = true;
  } seen;
  const CallOutcome outcome = Run(
      [](invoker_call* call) -> std::int64_t {
        auto* seen = static_cast<Seen*>(call->context);
        seen->call = *call;
        for (std::uint64_t i = 0; i < call->error_capacity; ++i) {
          if (call->error[i] != 0) seen->error_was_zero = false;
        }
        static_cast<std::uint8_t*>(call->output)[0] = 9;
        return 1;
      },
      &seen);
  EXPECT_EQ(outcome.kind, CallOutcome::Kind::kOk);
  EXPECT_EQ(outcome.output_size, 1u);
  EXPECT_EQ(output_[0], 9);
  EXPECT_EQ(seen.call.struct_size, sizeof(invoker_call));
  EXPECT_EQ(seen.call.input, input_.data());
  EXPECT_EQ(seen.call.input_size, 3u);
  EXPECT_EQ(seen.call.output, output_.data());
  EXPECT_EQ(seen.call.output_capacity, 8u);
  EXPECT_EQ(seen.call.output_needed, 0u);
  EXPECT_EQ(seen.call.error_capacity, sizeof(error_));
  EXPECT_TRUE(seen.error_was_zero);
}

TEST_F(RunFunctionTest, FillingTheWholeOutputIsFineAndOneByteMoreIsNot) {
  EXPECT_EQ(Run([](invoker_call*) -> std::int64_t { return 8; }).output_size, 8u);
  for (const invoker_function claim :
       {invoker_function{[](invoker_call*) -> std::int64_t { return 9; }},
        invoker_function{[](invoker_call*) -> std::int64_t { return INT64_MAX; }}}) {
    const CallOutcome outcome = Run(claim);
    EXPECT_EQ(outcome.kind, CallOutcome::Kind::kFailed);
    EXPECT_EQ(outcome.output_size, 0u);
    EXPECT_EQ(outcome.code, INVOKER_FAILED);
    EXPECT_TRUE(ErrorHas("room for 8")) << error_;
    EXPECT_EQ(outcome.error_size, std::strlen(error_));
  }
}

TEST_F(RunFunctionTest, TooSmallCarriesTheSizeThatWouldDo) {
  const CallOutcome outcome = Run([](invoker_call* call) -> std::int64_t {
    call->output_needed = 9;
    return INVOKER_OUTPUT_TOO_SMALL;
  });
  EXPECT_EQ(outcome.kind, CallOutcome::Kind::kOutputTooSmall);
  EXPECT_EQ(outcome.output_needed, 9u);
}

TEST_F(RunFunctionTest, TooSmallForWhatWouldHaveFitIsAFailure) {
  const CallOutcome outcome = Run([](invoker_call* call) -> std::int64_t {
    call->output_needed = 8;
    return INVOKER_OUTPUT_TOO_SMALL;
  });
  EXPECT_EQ(outcome.kind, CallOutcome::Kind::kFailed);
  EXPECT_TRUE(ErrorHas("needs 8 bytes and had room for 8")) << error_;
}

TEST_F(RunFunctionTest, FailureCarriesCodeAndMessage) {
  for (const std::int32_t code :
       {INVOKER_FAILED, INVOKER_APPLICATION_CODE_MAX, -123456, INVOKER_APPLICATION_CODE_MIN}) {
    std::int32_t context = code;
    const CallOutcome outcome = Run(
        [](invoker_call* call) -> std::int64_t {
          std::strcpy(call->error, "because");
          return *static_cast<std::int32_t*>(call->context);
        },
        &context);
    EXPECT_EQ(outcome.kind, CallOutcome::Kind::kFailed);
    EXPECT_EQ(outcome.code, code);
    EXPECT_STREQ(error_, "because");
    EXPECT_EQ(outcome.error_size, 7u);
  }
}

TEST_F(RunFunctionTest, CodesThatMeanNothingAreFailures) {
  for (std::int64_t code : {std::int64_t{-3}, std::int64_t{-999},
                            std::int64_t{INVOKER_APPLICATION_CODE_MIN} - 1, INT64_MIN}) {
    const CallOutcome outcome =
        Run([](invoker_call* call) { return *static_cast<std::int64_t*>(call->context); }, &code);
    EXPECT_EQ(outcome.kind, CallOutcome::Kind::kFailed);
    EXPECT_EQ(outcome.code, INVOKER_FAILED);
    EXPECT_TRUE(ErrorHas(std::to_string(code).c_str())) << error_;
  }
}

TEST_F(RunFunctionTest, SilentFailureGetsAMessageAndKeepsItsCode) {
  const CallOutcome outcome = Run([](invoker_call*) -> std::int64_t { return -1234; });
  EXPECT_EQ(outcome.kind, CallOutcome::Kind::kFailed);
  EXPECT_EQ(outcome.code, -1234);
  EXPECT_TRUE(ErrorHas("without a message")) << error_;
  EXPECT_EQ(outcome.error_size, std::strlen(error_));
}

TEST_F(RunFunctionTest, MessageWithoutAnEndIsCut) {
  const CallOutcome outcome = Run([](invoker_call* call) -> std::int64_t {
    std::memset(call->error, 'x', call->error_capacity);
    return INVOKER_FAILED;
  });
  EXPECT_EQ(outcome.error_size, sizeof(error_) - 1);
  EXPECT_EQ(std::strlen(error_), sizeof(error_) - 1);
}

TEST_F(RunFunctionTest, ExceptionThroughTheAbiIsAFailure) {
  const CallOutcome outcome =
      Run([](invoker_call*) -> std::int64_t { throw std::runtime_error("out of cheese"); });
  EXPECT_EQ(outcome.kind, CallOutcome::Kind::kFailed);
  EXPECT_TRUE(ErrorHas("out of cheese")) << error_;
  EXPECT_EQ(Run([](invoker_call*) -> std::int64_t { throw 1; }).kind, CallOutcome::Kind::kFailed);
}

}  // namespace
}  // namespace invoker
