#include "tests/failure/packet_loss.h"

#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace invoker::failure {
namespace {

constexpr char kBlackhole[] = "blackhole";

struct Request {
  nlmsghdr header;
  tcmsg queue;
  rtattr kind;
  char name[RTA_ALIGN(sizeof(kBlackhole))];
};
static_assert(offsetof(Request, kind) == NLMSG_LENGTH(sizeof(tcmsg)));

struct Reply {
  nlmsghdr header;
  nlmsgerr error;
};

// errno, or 0.
int Ask(int socket, const Request& request) {
  if (send(socket, &request, request.header.nlmsg_len, 0) < 0) return errno;
  Reply reply = {};
  const ssize_t got = recv(socket, &reply, sizeof(reply), MSG_TRUNC);
  if (got < 0) return errno;
  if (reply.header.nlmsg_type != NLMSG_ERROR) return EPROTO;
  return -reply.error.error;
}

}  // namespace

absl::Status DropWhatLeaves(const char* link, bool drop) {
  Request request = {};
  request.header.nlmsg_type = drop ? RTM_NEWQDISC : RTM_DELQDISC;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof(tcmsg));
  request.queue.tcm_ifindex = static_cast<int>(if_nametoindex(link));
  request.queue.tcm_parent = TC_H_ROOT;
  if (request.queue.tcm_ifindex == 0) return absl::ErrnoToStatus(errno, link);
  if (drop) {
    request.header.nlmsg_flags |= NLM_F_CREATE | NLM_F_REPLACE;
    request.header.nlmsg_len = sizeof(request);
    request.kind.rta_type = TCA_KIND;
    request.kind.rta_len = RTA_LENGTH(sizeof(kBlackhole));
    std::memcpy(request.name, kBlackhole, sizeof(kBlackhole));
  }
  const int made = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (made < 0) return absl::ErrnoToStatus(errno, "a socket for requests to the kernel");
  const int error = Ask(made, request);
  close(made);
  if (error == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat(link, ", a queue that drops"));
}

}  // namespace invoker::failure
