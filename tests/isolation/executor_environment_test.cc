#include "src/isolation/sandbox/executor_environment.h"

#include <gmock/gmock.h>

namespace invoker {
namespace {

TEST(ExecutorEnvironment, TakesWhatIsNamed) {
  for (const char* name : {"PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "FI_PROVIDER",
                           "PYTHONPATH", "INVOKER_X", "ASAN_OPTIONS", "UBSAN_OPTIONS"}) {
    EXPECT_TRUE(IsExecutorVariable(name)) << name;
  }
}

TEST(ExecutorEnvironment, AndNothingElse) {
  for (const char* name : {"", "PATHS", "XPATH", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LC",
                           "MY_FI_X", "SAN_OPTIONS_X", "LANGUAGES"}) {
    EXPECT_FALSE(IsExecutorVariable(name)) << name;
  }
}

TEST(ExecutorEnvironment, EntriesStayAsTheyAre) {
  const char* const environment[] = {"HOME=/a=b", "TOKEN=x", "PATH", "=PATH=x", "LC_ALL=", nullptr};
  EXPECT_THAT(ExecutorEnvironment(environment), testing::ElementsAre("HOME=/a=b", "LC_ALL="));
}

}  // namespace
}  // namespace invoker
