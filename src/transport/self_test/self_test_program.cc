#include "src/transport/self_test/self_test_program.h"

#include <fcntl.h>
#include <google/protobuf/text_format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "src/transport/self_test/self_test_message.h"

namespace invoker::transport {
namespace {

bool WriteAll(const std::string& bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t size = write(kSelfTestFd, bytes.data() + written, bytes.size() - written);
    if (size < 0 && errno != EINTR) return false;
    if (size > 0) written += static_cast<size_t>(size);
  }
  return true;
}

}  // namespace

int RunSelfTestProgram(int argc, char** argv) {
  v1::SelfTestRequest request;
  if (argc != 2 || !google::protobuf::TextFormat::ParseFromString(argv[1], &request) ||
      fcntl(kSelfTestFd, F_SETFD, FD_CLOEXEC) != 0) {
    fprintf(stderr,
            "invoker_self_test: servers start this program to try a fabric; to try one yourself, "
            "run invoker fabrics --verify\n");
    return 2;
  }
  // A crash is told in words; to write a core would only take time.
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // The parent's thread that started this process waits for it, so the parent ends no earlier.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != request.parent()) return 1;
  const SelfTestResult result =
      RunSelfTest(FromProto(request), absl::Nanoseconds(request.limit_ns()));
  return WriteAll(ToProto(result).SerializeAsString()) ? 0 : 1;
}

}  // namespace invoker::transport
