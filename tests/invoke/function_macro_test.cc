// The C++ macro by itself: this program is the function library, and asks its own getter.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "invoker/function.h"

namespace {

std::int64_t Raw(invoker_call*) { return 3; }

}  // namespace

INVOKER_FUNCTION(copy, in, out) {
  out.Append(in.data(), in.size());
  return invoker::Result::Ok();
}

INVOKER_CONCURRENCY(copy, 3);
INVOKER_DOC(copy, "the input");

INVOKER_FUNCTION("dots.and-dashes_2", input, output) { return invoker::Result::Ok(); }

INVOKER_FUNCTION(pieces, input, output) {
  for (const std::uint8_t byte : input) output.Append(&byte, 1);
  output.Append(input.text());
  return invoker::Result::Ok();
}

INVOKER_FUNCTION(resize, input, output) {
  if (!output.Resize(input.size() * 10)) return invoker::Result::TooSmall(input.size() * 10);
  std::memset(output.data(), 'r', output.size());
  return invoker::Result::Ok();
}

INVOKER_FUNCTION(overflow, input, output) {
  output.Append(input.data(), input.size());
  volatile std::size_t huge = SIZE_MAX;  // a constant would be a compiler warning
  output.Append(input.data(), huge);
  return invoker::Result::Ok();
}

INVOKER_FUNCTION(error, input, output) { return invoker::Result::Error(std::string(input.text())); }
INVOKER_FUNCTION(coded_error, input, output) { return invoker::Result::Error(-4321, "coded"); }
INVOKER_FUNCTION(positive_error, input, output) { return invoker::Result::Error(17, "positive"); }
INVOKER_FUNCTION(throw, input, output) { throw std::out_of_range("thrown"); }
INVOKER_FUNCTION(throw_int, input, output) { throw 1; }
INVOKER_REGISTER(raw, Raw);

namespace {

struct Answer {
  std::int64_t returned = 0;
  std::string output;
  std::uint64_t needed = 0;
  std::string error;
};

class FunctionMacroTest : public ::testing::Test {
 protected:
  FunctionMacroTest() {
    const invoker_module* module = invoker_get_module();
    for (std::uint32_t i = 0; i < module->count; ++i) {
      functions_[module->entries[i].name] = module->entries[i].function;
    }
  }

  Answer Call(const std::string& name, const std::string& input, std::size_t capacity = 64) {
    std::string output(capacity + 1, '\0');  // the last one must stay as it is
    char error[INVOKER_MIN_ERROR_CAPACITY] = {};
    invoker_call call = {};
    call.struct_size = sizeof(call);
    call.input = input.data();
    call.input_size = input.size();
    call.output = &output[0];
    call.output_capacity = capacity;
    call.error = error;
    call.error_capacity = sizeof(error);
    Answer answer;
    answer.returned = functions_.at(name)(&call);
    answer.needed = call.output_needed;
    answer.error = error;
    EXPECT_EQ(output.back(), '\0');
    if (answer.returned >= 0) answer.output = output.substr(0, answer.returned);
    return answer;
  }

  std::map<std::string, invoker_function> functions_;
};

TEST_F(FunctionMacroTest, ModuleListsTheFunctionsOfAllFilesOnce) {
  const invoker_module* module = invoker_get_module();
  EXPECT_EQ(module->abi_version, std::uint32_t{INVOKER_ABI_VERSION});
  EXPECT_EQ(module->struct_size, sizeof(invoker_module));
  EXPECT_EQ(module->entry_size, sizeof(invoker_entry));
  std::multiset<std::string> names;
  for (std::uint32_t i = 0; i < module->count; ++i) names.insert(module->entries[i].name);
  EXPECT_EQ(names, (std::multiset<std::string>{"copy", "dots.and-dashes_2", "pieces", "resize",
                                               "overflow", "error", "coded_error", "positive_error",
                                               "throw", "throw_int", "raw", "other.file"}));
  EXPECT_EQ(invoker_get_module(), module);
}

TEST_F(FunctionMacroTest, MoreIsSaidOfAFunctionByItsName) {
  const invoker_module* module = invoker_get_module();
  for (std::uint32_t i = 0; i < module->count; ++i) {
    const invoker_entry& entry = module->entries[i];
    const bool is_copy = std::string(entry.name) == "copy";
    EXPECT_EQ(entry.concurrency, is_copy ? 3u : 0u) << entry.name;
    EXPECT_STREQ(entry.doc, is_copy ? "the input" : nullptr) << entry.name;
  }
}

TEST_F(FunctionMacroTest, AppendedBytesAreTheAnswer) {
  EXPECT_EQ(Call("copy", "").returned, 0);
  EXPECT_EQ(Call("copy", "hello").output, "hello");
  EXPECT_EQ(Call("pieces", "ab").output, "abab");
  EXPECT_EQ(Call("other.file", "").output, "other");
}

TEST_F(FunctionMacroTest, ResizedBytesAreTheAnswer) {
  EXPECT_EQ(Call("resize", "ab").output, std::string(20, 'r'));
}

TEST_F(FunctionMacroTest, AnswerThatFillsTheOutputFits) {
  EXPECT_EQ(Call("copy", "12345678", 8).output, "12345678");
}

TEST_F(FunctionMacroTest, AppendingTooMuchReportsTheWholeSize) {
  for (const std::size_t capacity : {0, 1, 9, 19}) {
    const Answer answer = Call("pieces", "0123456789", capacity);
    EXPECT_EQ(answer.returned, INVOKER_OUTPUT_TOO_SMALL);
    EXPECT_EQ(answer.needed, 20u);
  }
}

TEST_F(FunctionMacroTest, TooSmallReportsWhatTheFunctionSays) {
  const Answer answer = Call("resize", "1234567");
  EXPECT_EQ(answer.returned, INVOKER_OUTPUT_TOO_SMALL);
  EXPECT_EQ(answer.needed, 70u);
}

TEST_F(FunctionMacroTest, SizesThatOverflowAreTooMuch) {
  const Answer answer = Call("overflow", "1234");
  EXPECT_EQ(answer.returned, INVOKER_OUTPUT_TOO_SMALL);
  EXPECT_EQ(answer.needed, SIZE_MAX);
}

TEST_F(FunctionMacroTest, ErrorsCarryCodeAndMessage) {
  EXPECT_EQ(Call("error", "no more paper").returned, INVOKER_FAILED);
  EXPECT_EQ(Call("error", "no more paper").error, "no more paper");
  EXPECT_EQ(Call("coded_error", "").returned, -4321);
  EXPECT_EQ(Call("coded_error", "").error, "coded");
}

TEST_F(FunctionMacroTest, CodeThatWouldMeanSuccessIsAFailure) {
  EXPECT_EQ(Call("positive_error", "").returned, INVOKER_FAILED);
  EXPECT_EQ(Call("positive_error", "").error, "positive");
}

TEST_F(FunctionMacroTest, LongMessageIsCutBetweenCharacters) {
  EXPECT_EQ(Call("error", std::string(255, 'x')).error, std::string(255, 'x'));
  EXPECT_EQ(Call("error", std::string(256, 'x')).error, std::string(255, 'x'));
  // The two bytes of the umlaut would be the 255th and the 256th.
  EXPECT_EQ(Call("error", std::string(254, 'x') + "\xC3\xBC").error, std::string(254, 'x'));
  EXPECT_EQ(Call("error", std::string(253, 'x') + "\xC3\xBC").error,
            std::string(253, 'x') + "\xC3\xBC");
}

TEST_F(FunctionMacroTest, ExceptionsBecomeErrors) {
  EXPECT_EQ(Call("throw", "").returned, INVOKER_FAILED);
  EXPECT_EQ(Call("throw", "").error, "thrown");
  EXPECT_EQ(Call("throw_int", "").returned, INVOKER_FAILED);
  EXPECT_NE(Call("throw_int", "").error, "");
}

TEST_F(FunctionMacroTest, RegisteredFunctionIsCalledDirectly) {
  EXPECT_EQ(Call("raw", "").returned, 3);
}

}  // namespace
