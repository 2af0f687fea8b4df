// A library that leaves files in /dev/shm under the names of its process's endpoints before there
// are any, as a process with the same number that was killed would have.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "src/invoke/function.h"

namespace {

constexpr int kEndpoints = 40;
constexpr off_t kBytes = 65536;

__attribute__((constructor)) void LeaveFiles() {
  for (int i = 0; i < kEndpoints; ++i) {
    char path[64];
    snprintf(path, sizeof(path), "/dev/shm/%d:%u:%d", getpid(), getuid(), i);
    const int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, kBytes) != 0) _exit(1);
    close(fd);
  }
}

}  // namespace

// Libraries have functions.
INVOKER_FUNCTION(stale.nothing, input, output) {
  (void)input, (void)output;
  return invoker::Result::Ok();
}
