#include "tools/service_manager.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "src/base/unique_fd.h"

namespace invoker::tools {
namespace {

std::string TakeVariable(const char* name) {
  const char* value = getenv(name);
  std::string result = value == nullptr ? "" : value;
  unsetenv(name);
  return result;
}

}  // namespace

ServiceManager::ServiceManager() {
  socket_ = TakeVariable("NOTIFY_SOCKET");
  uint64_t microseconds = 0;
  int64_t process = 0;
  const bool watched = absl::SimpleAtoi(TakeVariable("WATCHDOG_USEC"), &microseconds);
  const bool of_one = absl::SimpleAtoi(TakeVariable("WATCHDOG_PID"), &process);
  if (socket_.empty() || !watched || microseconds == 0 || (of_one && process != getpid())) return;
  // Twice as often as the manager expects, as systemd recommends.
  alive_period_ = absl::Microseconds(microseconds) / 2;
}

void ServiceManager::Send(absl::string_view state) const {
  sockaddr_un address = {};
  if (socket_.empty() || socket_.size() > sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';  // Linux's abstract names begin with a zero
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace invoker::tools
