#include "bench/harness/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace invoker::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CommonOptions Parse(std::vector<std::string> arguments) {
  CLI::App app;
  CommonOptions options;
  AddCommonOptions(&app, &options);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 wants a vector in this order
  app.parse(arguments);
  return options;
}

TEST(OptionsTest, QuickMeansFewerRoundsUnlessRoundsAreGiven) {
  const int normal = Parse({}).rounds;
  EXPECT_LT(Parse({"--quick"}).rounds, normal);
  EXPECT_TRUE(Parse({"--quick"}).quick);
  EXPECT_EQ(Parse({"--quick", "--rounds=33"}).rounds, 33);
  EXPECT_EQ(Parse({"--rounds=33", "--quick"}).rounds, 33);
}

TEST(OptionsTest, ProvidersReplaceTheDefaultOnes) {
  EXPECT_THAT(Parse({}).providers, ElementsAre("tcp;ofi_rxm", "shm"));
  EXPECT_THAT(Parse({"--provider=a", "--provider=b;c"}).providers, ElementsAre("a", "b;c"));
  EXPECT_THAT(Parse({"--provider", "a", "--quick"}).providers, ElementsAre("a"));
}

TEST(OptionsTest, NonsenseIsRefused) {
  EXPECT_THROW(Parse({"--rounds=0"}), CLI::ParseError);
  EXPECT_THROW(Parse({"--client-core=-1"}), CLI::ParseError);
  EXPECT_THROW(Parse({"stray"}), CLI::ParseError);
}

TEST(OptionsTest, ACoreThatIsNotThereIsAnErrorThatSaysWhichAre) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  for (int core : {-1, CPU_SETSIZE - 1, CPU_SETSIZE}) {
    EXPECT_THAT(std::string(PinToCore(core).message()),
                HasSubstr(absl::StrCat("this process may use: ", first)));
  }
  ASSERT_TRUE(PinToCore(first).ok());
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_EQ(CPU_COUNT(&after), 1);
  EXPECT_TRUE(CPU_ISSET(first, &after));
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(OptionsTest, ConditionsSayWhatTheFiguresDependOn) {
  CommonOptions options;
  options.json = absl::StrCat(testing::TempDir(), "/conditions.json");
  Report report("test", "What?");
  GatherConditions(options, &report);
  EXPECT_EQ(Finish(options, report), 0);
  std::ifstream file(options.json);
  const nlohmann::json conditions = nlohmann::json::parse(file)["conditions"];
  for (const char* name : {"cpu", "machine", "cores_online", "kernel", "clock_source", "libfabric",
                           "build", "load_before", "providers", "fabric_address", "client_core",
                           "server_core", "rounds", "quick"}) {
    EXPECT_TRUE(conditions.contains(name)) << name;
    EXPECT_NE(conditions[name], "") << name;
  }
  EXPECT_EQ(conditions["rounds"], "20");
}

TEST(OptionsTest, AFileThatCannotBeWrittenFailsTheProgram) {
  CommonOptions options;
  options.json = absl::StrCat(testing::TempDir(), "/no_such_directory/x.json");
  EXPECT_EQ(Finish(options, Report("test", "What?")), 1);
}

}  // namespace
}  // namespace invoker::bench
