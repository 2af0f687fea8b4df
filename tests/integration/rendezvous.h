// The test's side of test.rendezvous: knows that a function runs, and decides when it ends, without
// a look at the clock.

#ifndef INVOKER_TESTS_INTEGRATION_RENDEZVOUS_H_
#define INVOKER_TESTS_INTEGRATION_RENDEZVOUS_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "invoker/call_fate.h"
#include "tests/integration/child_process.h"

namespace invoker {

class Rendezvous {
 public:
  Rendezvous() {
    std::string directory = testing::TempDir() + "/rendezvous.XXXXXX";
    if (mkdtemp(directory.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << directory;
    directory_ = directory;
    path_ = directory + "/call";
    started_ = MakeFifo(path_ + ".started");
    release_ = MakeFifo(path_ + ".release");
  }
  ~Rendezvous() {
    // First, so that nobody who is late opens one and waits for the other side.
    unlink((path_ + ".started").c_str());
    unlink((path_ + ".release").c_str());
    close(started_);
    close(release_);
    rmdir(directory_.c_str());
  }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // The function's input.
  const std::string& path() const { return path_; }

  // Whether a call has begun of which no WaitUntilRunning knows.
  bool HasBegun() {
    pollfd started = {started_, POLLIN, 0};
    return poll(&started, 1, 0) == 1;
  }

  // Waits until a call runs. False if none does.
  bool WaitUntilRunning() {
    pollfd started = {started_, POLLIN, 0};
    const timespec patience = absl::ToTimespec(kPatience);
    char byte;
    return ppoll(&started, 1, &patience, nullptr) == 1 && read(started_, &byte, 1) == 1;
  }

  // Makes a call with longer and longer deadlines until one has passed while it runs: one that is
  // kept from beginning before, on a busy machine, does not begin. Returns how it ended.
  // `call(timeout)` is to call a function that waits for Release.
  template <typename Call>
  absl::Status RunBeyondDeadline(Call call) {
    const absl::Time limit = absl::Now() + kPatience;
    absl::Status status;
    for (absl::Duration timeout = absl::Milliseconds(20); absl::Now() < limit;) {
      const absl::Status now = call(timeout);
      // The cells of one that has not begun come back with its answer. One that has not left is not
      // the one that has begun: an earlier one is, a little after its deadline.
      if (!absl::IsResourceExhausted(now)) {
        if (status.ok() || GetCallFate(now) != CallFate::kNotSent) status = now;
        timeout = std::min(4 * timeout, kPatience);
      }
      if (HasBegun()) return status;
      if (!absl::IsDeadlineExceeded(now) && !absl::IsResourceExhausted(now)) return now;
    }
    return absl::UnknownError(
        absl::StrCat("it has not begun in all that time: ", status.message()));
  }

  // Lets one call end.
  void Release() { EXPECT_EQ(write(release_, "x", 1), 1); }

 private:
  // Open for both, so that neither side waits for the other and nobody sees an end of file.
  static int MakeFifo(const std::string& path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0) << path;
    return open(path.c_str(), O_RDWR | O_CLOEXEC);
  }

  std::string directory_;
  std::string path_;
  int started_;
  int release_;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_RENDEZVOUS_H_
