// How a test, or a program of one, learns that code in another process has begun to run: that code
// writes a byte into a FIFO.
//
// One thread.

#ifndef INVOKER_TESTS_ISOLATION_BEGUN_FIFO_H_
#define INVOKER_TESTS_ISOLATION_BEGUN_FIFO_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/time/time.h"

namespace invoker {

class BegunFifo {
 public:
  BegunFifo() {
    const char* place = getenv("TEST_TMPDIR");
    std::string directory = std::string(place != nullptr ? place : "/tmp") + "/begun.XXXXXX";
    if (mkdtemp(directory.data()) == nullptr) return;
    directory_ = directory;
    path_ = directory_ + "/fifo";
    if (mkfifo(path_.c_str(), 0600) != 0) return;
    // For both, so that neither side waits for the other and nobody sees an end of file.
    fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~BegunFifo() {
    if (fd_ >= 0) close(fd_);
    if (!path_.empty()) unlink(path_.c_str());
    if (!directory_.empty()) rmdir(directory_.c_str());
  }
  BegunFifo(const BegunFifo&) = delete;
  BegunFifo& operator=(const BegunFifo&) = delete;

  // For the code that is to write.
  const std::string& path() const { return path_; }

  // Blocks until it has written a byte, which is taken. False: not within `patience`.
  bool Wait(absl::Duration patience) {
    pollfd event = {fd_, POLLIN, 0};
    const timespec limit = absl::ToTimespec(patience);
    char byte;
    return fd_ >= 0 && ppoll(&event, 1, &limit, nullptr) == 1 && read(fd_, &byte, 1) == 1;
  }

 private:
  std::string directory_;
  std::string path_;
  int fd_ = -1;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_ISOLATION_BEGUN_FIFO_H_
