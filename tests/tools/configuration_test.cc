#include "tools/configuration.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/options.h"

namespace invoker::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program with a command, as the values end up in it.
class ConfigurationTest : public testing::Test {
 protected:
  ConfigurationTest() {
    // What the test before this one may have left.
    for (const char* name : {"TEST_LEVEL", "TEST_CONFIG", "TEST_TOKEN"}) unsetenv(name);
  }

  void AddOptions(CLI::App* app) {
    app->add_option("--level", level_);
    app->add_option("--file", files_)->delimiter(',');
    app->add_flag("--quiet", quiet_);
    CLI::App* call = app->add_subcommand("call");
    call->add_option("--time-limit", limit_);
    CLI::Option* lease = call->add_flag("--lease", lease_);
    call->add_option("--cores", cores_)->needs(lease);
    call->add_option("--token", token_);
    app->add_subcommand("list")->add_option("--time-limit", list_limit_);
  }

  std::string Write(absl::string_view text) {
    std::string path = absl::StrCat(
        testing::TempDir(), testing::UnitTest::GetInstance()->current_test_info()->name(), ".conf");
    std::ofstream(path) << text;
    return path;
  }

  // With a file of this text as the default.
  int Run(absl::string_view text, std::vector<std::string> arguments) {
    return Run(Configuration{"TEST_", Write(text), "the file", {"token"}}, std::move(arguments));
  }
  int Run(const Configuration& configuration, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> pointers;
    for (std::string& each : arguments) pointers.push_back(each.data());
    CLI::App app("a program", "program");
    AddOptions(&app);
    files_.clear();
    testing::internal::CaptureStderr();
    const int result =
        Parse(&app, configuration, static_cast<int>(pointers.size()), pointers.data());
    errors_ = testing::internal::GetCapturedStderr();
    return result;
  }

  int level_ = 0;
  std::vector<std::string> files_;
  bool quiet_ = false;
  int limit_ = 0;
  int list_limit_ = 0;
  bool lease_ = false;
  int cores_ = 0;
  std::string token_;
  std::string errors_;
};

TEST_F(ConfigurationTest, ReadsLinesSectionsQuotesAndComments) {
  const auto entries = ReadConfiguration(
      Write("# comment\n; another\n\n a_b = 1 # one\nlisten=\"[::1]:7000 # x\"  # IPv6\n[call]\n"
            "path = /a b/c#d\nprovider = tcp;ofi_rxm\n"));
  ASSERT_TRUE(entries.ok()) << entries.status();
  std::vector<std::string> found;
  for (const ConfigurationEntry& entry : *entries) {
    const std::string line = entry.place.substr(entry.place.rfind(':'));
    found.push_back(absl::StrCat(entry.section, "|", entry.name, "|", entry.value, "|", line));
  }
  EXPECT_THAT(found, ElementsAre("|a-b|1|:4", "|listen|[::1]:7000 # x|:5", "call|path|/a b/c#d|:7",
                                 "call|provider|tcp;ofi_rxm|:8"));
}

TEST_F(ConfigurationTest, TheCommandLineOverridesVariablesAndTheseTheFile) {
  EXPECT_EQ(Run("level = 1\n", {}), -1);
  EXPECT_EQ(level_, 1);
  setenv("TEST_LEVEL", "2", 1);
  EXPECT_EQ(Run("level = 1\n", {}), -1);
  EXPECT_EQ(level_, 2);
  for (const std::string argument : {"--level=3", "--level"}) {
    std::vector<std::string> arguments = {argument};
    if (argument == "--level") arguments.push_back("3");
    EXPECT_EQ(Run("level = 1\n", arguments), -1);
    EXPECT_EQ(level_, 3);
  }
}

TEST_F(ConfigurationTest, AListIsOneLineOrSeveral) {
  EXPECT_EQ(Run("file = a,b\nfile = c\nquiet = true\n", {}), -1);
  EXPECT_THAT(files_, ElementsAre("a", "b", "c"));
  EXPECT_TRUE(quiet_);
  EXPECT_EQ(Run("file = a\nquiet = false\n", {"--file=d"}), -1);
  EXPECT_THAT(files_, ElementsAre("d"));
}

TEST_F(ConfigurationTest, OptionsOfACommandAreInItsSectionOrAboveAll) {
  const std::string text = "time-limit = 5\nlevel = 1\n[call]\ntime-limit = 7\n";
  EXPECT_EQ(Run(text, {"call"}), -1);
  EXPECT_EQ(limit_, 7);
  EXPECT_EQ(level_, 1);
  EXPECT_EQ(Run(text, {"list"}), -1);
  EXPECT_EQ(list_limit_, 5);
  EXPECT_EQ(Run(text, {"call", "--time-limit=9"}), -1);
  EXPECT_EQ(limit_, 9);
}

TEST_F(ConfigurationTest, AnOptionThatNeedsAnotherOneWaitsForIt) {
  EXPECT_EQ(Run("cores = 2\n", {"call"}), -1);
  EXPECT_EQ(cores_, 0);
  EXPECT_EQ(Run("cores = 2\n", {"call", "--lease"}), -1);
  EXPECT_EQ(cores_, 2);
}

TEST_F(ConfigurationTest, AVariableThatIsReadElsewhereOnlyHidesTheFile) {
  EXPECT_EQ(Run("token = t\n", {"call"}), -1);
  EXPECT_EQ(token_, "t");
  token_.clear();
  setenv("TEST_TOKEN", "other", 1);
  EXPECT_EQ(Run("token = t\n", {"call"}), -1);
  EXPECT_EQ(token_, "");
}

TEST_F(ConfigurationTest, AnotherFileOrNone) {
  const Configuration nowhere = {"TEST_", "/nonexistent/default.conf", "the file"};
  EXPECT_EQ(Run(nowhere, {}), -1) << "a default file need not exist";
  const std::string file = Write("level = 4\n");
  EXPECT_EQ(Run(nowhere, {"--config=" + file}), -1);
  EXPECT_EQ(level_, 4);
  level_ = 0;
  EXPECT_EQ(Run(nowhere, {"--config", file, "call"}), -1);
  EXPECT_EQ(level_, 4);
  level_ = 0;
  setenv("TEST_CONFIG", file.c_str(), 1);
  EXPECT_EQ(Run(nowhere, {}), -1);
  EXPECT_EQ(level_, 4);
  level_ = 0;
  EXPECT_EQ(Run(nowhere, {"--config=none"}), -1);
  EXPECT_EQ(level_, 0);
  EXPECT_EQ(Run(nowhere, {"--config=/nonexistent/named.conf"}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("/nonexistent/named.conf: No such file"));
  EXPECT_EQ(Run(nowhere, {"--config=/"}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("/: Is a directory"));
}

TEST_F(ConfigurationTest, MistakesAreNamedWithTheirPlace) {
  const auto error = [this](absl::string_view text) {
    EXPECT_EQ(Run(text, {"call"}), kExitUsage) << text;
    return errors_;
  };
  EXPECT_THAT(error("\nlevle = 1\n"), HasSubstr(".conf:2: there is no option --levle"));
  EXPECT_THAT(error("[call]\nlevel = 1\n"), HasSubstr(".conf:2: there is no option --level"));
  EXPECT_THAT(error("[cal]\nlevel = 1\n"), HasSubstr(".conf:2: no command is named cal"));
  EXPECT_THAT(error("level\n"), HasSubstr(".conf:1: an option is written NAME = VALUE"));
  EXPECT_THAT(error("level =\n"), HasSubstr(".conf:1: there is no value"));
  EXPECT_THAT(error("level = \"1\n"), HasSubstr(".conf:1: a quote is not closed"));
  EXPECT_THAT(error("level = \"1\" 2\n"), HasSubstr(".conf:1: there is text behind"));
  EXPECT_THAT(error("[call\n"), HasSubstr(".conf:1: a section is written [NAME]"));
  EXPECT_THAT(error("config = other\n"), HasSubstr("--config is for the command line only"));
  EXPECT_THAT(error("help = true\n"), HasSubstr("--help is for the command line only"));
  EXPECT_THAT(error("level = high\n"), HasSubstr(".conf:1)"));
  setenv("TEST_LEVEL", "high", 1);
  EXPECT_THAT(error(""), HasSubstr("(from TEST_LEVEL)"));
}

}  // namespace
}  // namespace invoker::tools
