// Self-tests that die: the environment for programs whose helpers are to do so.

#ifndef INVOKER_TESTS_INTEGRATION_DYING_SELF_TEST_H_
#define INVOKER_TESTS_INTEGRATION_DYING_SELF_TEST_H_

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace invoker {

// One test's.
class DyingSelfTest {
 public:
  // `how`: "segv", "exit" or "hang" (end_in_self_test.cc).
  explicit DyingSelfTest(const std::string& how) : how_(how) {
    char path[] = "/tmp/invoker_dying_self_test.XXXXXX";
    const int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    file_ = path;
  }
  DyingSelfTest(const DyingSelfTest&) = delete;
  DyingSelfTest& operator=(const DyingSelfTest&) = delete;
  ~DyingSelfTest() { unlink(file_.c_str()); }

  // For ChildProcess.
  std::vector<std::string> environment() const {
    return {"LD_PRELOAD=tests/integration/end_in_self_test.so", "INVOKER_TEST_END=" + how_,
            "INVOKER_TEST_END_FILE=" + file_};
  }

  // The helper that died last; 0 if none has.
  pid_t pid() const {
    pid_t pid = 0;
    std::ifstream(file_) >> pid;
    return pid;
  }

 private:
  const std::string how_;
  std::string file_;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_DYING_SELF_TEST_H_
