#include "tools/options.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace invoker::tools {
namespace {

int ParseThese(CLI::App* app, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  return Parse(app, static_cast<int>(arguments.size()), const_cast<char**>(arguments.data()));
}

TEST(OptionsTest, AcceptsDashesAndUnderscoresInNames) {
  for (const char* argument : {"--hot-timeout=a_b-c", "--hot_timeout=a_b-c"}) {
    CLI::App app("program");
    std::string value;
    app.add_option("--hot-timeout", value);
    EXPECT_EQ(ParseThese(&app, {argument}), -1) << argument;
    EXPECT_EQ(value, "a_b-c") << "a value keeps its underscores";
  }
}

TEST(OptionsTest, AcceptsUnderscoresAfterASubcommand) {
  CLI::App app("program");
  CLI::App* call = app.add_subcommand("call");
  std::string value;
  std::string name;
  call->add_option("--response-capacity", value);
  call->add_option("name", name);
  EXPECT_EQ(ParseThese(&app, {"call", "--response_capacity", "64_K", "my_function"}), -1);
  EXPECT_EQ(value, "64_K");
  EXPECT_EQ(name, "my_function");
}

TEST(OptionsTest, LeavesArgumentsAfterTwoDashesAlone) {
  CLI::App app("program");
  std::vector<std::string> rest;
  app.add_option("rest", rest);
  EXPECT_EQ(ParseThese(&app, {"--", "--left_alone"}), -1);
  EXPECT_EQ(rest, std::vector<std::string>{"--left_alone"});
}

TEST(OptionsTest, RefusesUnknownOptionsWithTheUsageStatus) {
  CLI::App app("program");
  testing::internal::CaptureStderr();
  EXPECT_EQ(ParseThese(&app, {"--no_such_option"}), kExitUsage);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("see program --help"), std::string::npos);
}

}  // namespace
}  // namespace invoker::tools
