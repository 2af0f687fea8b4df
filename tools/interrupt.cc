#include "tools/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace invoker::tools {
namespace {

// What the handler may touch: it runs on any thread.
std::atomic<bool> interrupted{false};
int event_fd = -1;
struct sigaction former;

void OnSignal(int signal_number) {
  const int saved_errno = errno;
  if (interrupted.exchange(true)) {
    sigaction(signal_number, &former, nullptr);
    raise(signal_number);
  }
  const uint64_t one = 1;
  // Nothing can be done about a failure here, and a full counter wakes as well.
  if (write(event_fd, &one, sizeof(one)) < 0) errno = 0;
  errno = saved_errno;
}

}  // namespace

Interrupt::Interrupt() {
  interrupted = false;
  event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &former);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &former, nullptr);
  close(event_fd);
}

bool Interrupt::WaitFor(absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  while (!interrupted && limit > absl::ZeroDuration()) {
    pollfd event = {event_fd, POLLIN, 0};
    const timespec left = absl::ToTimespec(std::min(limit, absl::Hours(24)));
    if (ppoll(&event, 1, &left, nullptr) > 0) break;
    limit = deadline - absl::Now();
  }
  return interrupted;
}

absl::StatusOr<UniqueFd> TakeEndSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  UniqueFd signal_fd(signalfd(-1, &set, SFD_CLOEXEC));
  if (signal_fd.valid()) return signal_fd;
  return absl::ResourceExhaustedError(absl::StrCat("signalfd: ", strerror(errno)));
}

}  // namespace invoker::tools
