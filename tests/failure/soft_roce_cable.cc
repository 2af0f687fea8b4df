#include "tests/failure/soft_roce_cable.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/failure/packet_loss.h"
#include "tests/failure/shell.h"

namespace invoker::failure {
namespace {

constexpr char kServersLink[] = "v0";
constexpr char kClientsLink[] = "v1";
// The machine's table of routes from the servers' end.
constexpr char kServersRoute[] = "10.9.0.0/24 dev v0 table 100";

absl::Status SetUp(int socket, const char* link, bool up) {
  ifreq request = {};
  std::strncpy(request.ifr_name, link, IFNAMSIZ - 1);
  if (ioctl(socket, SIOCGIFFLAGS, &request) != 0) return absl::ErrnoToStatus(errno, link);
  if (up) {
    request.ifr_flags |= IFF_UP;
  } else {
    request.ifr_flags &= ~IFF_UP;
  }
  if (ioctl(socket, SIOCSIFFLAGS, &request) != 0) return absl::ErrnoToStatus(errno, link);
  return absl::OkStatus();
}

absl::Status DropAtBothEnds(bool drop) {
  absl::Status first = DropWhatLeaves(kClientsLink, drop);
  absl::Status second = DropWhatLeaves(kServersLink, drop);
  return first.ok() ? second : first;
}

// To the servers' end, by the table that leads over the cable.
std::string Rule(const char* verb) {
  return absl::StrCat("ip -4 rule ", verb, " pref 9 iif lo to ", kSoftRoceServerAddress,
                      " ipproto tcp lookup 101");
}

}  // namespace

absl::StatusOr<std::unique_ptr<SoftRoceCable>> SoftRoceCable::Make() {
  const int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (made < 0) return absl::ErrnoToStatus(errno, "a socket for requests to the kernel");
  std::unique_ptr<SoftRoceCable> cable(new SoftRoceCable(made));
  if (absl::Status status =
          RunInShell(absl::StrCat("ip -4 route get ", kSoftRoceServerAddress, " from ",
                                  kSoftRoceClientAddress, " | grep -q 'dev v1 table 101'"));
      !status.ok()) {
    return absl::FailedPreconditionError(
        "this is not the machine of tools/soft_roce: no way leads over its cable");
  }
  if (absl::Status status = RunInShell(Rule("add")); !status.ok()) return status;
  return cable;
}

SoftRoceCable::~SoftRoceCable() {
  RunInShell(Rule("del")).IgnoreError();
  close(socket_);
}

absl::Status SoftRoceCable::Pull() { return SetUp(socket_, kServersLink, false); }

absl::Status SoftRoceCable::Plug() {
  if (absl::Status status = SetUp(socket_, kServersLink, true); !status.ok()) return status;
  // The kernel has removed it with the link.
  return RunInShell(absl::StrCat("ip -4 route replace ", kServersRoute));
}

absl::Status SoftRoceCable::DropPackets() { return DropAtBothEnds(true); }

absl::Status SoftRoceCable::ForwardPackets() { return DropAtBothEnds(false); }

}  // namespace invoker::failure
