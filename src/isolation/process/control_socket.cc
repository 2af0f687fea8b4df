#include "src/isolation/process/control_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

// That are taken by one call that does not wait.
constexpr int kMostPackets = 16;

// The first byte of a packet.
constexpr char kMore = 0;
constexpr char kLast = 1;

absl::Status Closed(absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("the other process is gone: ", why));
}

}  // namespace

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> ControlSocket::Pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("socketpair: ", strerror(errno)));
  }
  return std::make_pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

ControlSocket::ControlSocket(UniqueFd fd, Takes takes) : fd_(std::move(fd)), takes_(takes) {
  const int on = 1;
  // Without it senders stay unknown.
  if (takes_ == Takes::kSender) setsockopt(fd_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

absl::Status ControlSocket::SendPacket(bool last, absl::string_view part, absl::Span<const int> fds,
                                       bool wait) {
  char kind = last ? kLast : kMore;
  iovec pieces[2] = {{&kind, 1}, {const_cast<char*>(part.data()), part.size()}};
  msghdr header = {};
  header.msg_iov = pieces;
  header.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)];
  if (!fds.empty()) {
    const size_t bytes = sizeof(int) * fds.size();
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(bytes);
    memset(control, 0, header.msg_controllen);
    cmsghdr* entry = CMSG_FIRSTHDR(&header);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(entry), fds.data(), bytes);
  }
  while (true) {
    if (sendmsg(fd_.get(), &header, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) >= 0) {
      return absl::OkStatus();
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      return absl::ResourceExhaustedError("the other process does not read what it is sent");
    }
    return Closed(strerror(errno));
  }
}

absl::Status ControlSocket::Send(absl::string_view bytes, absl::Span<const int> fds, bool wait) {
  if (fds.size() > kMostFds || bytes.size() > kMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", bytes.size(), " bytes with ",
                                                   fds.size(), " descriptors is too large"));
  }
  absl::MutexLock lock(&send_mutex_);
  const bool alone = bytes.size() <= kPacketBytes;
  do {
    const absl::string_view part = bytes.substr(0, kPacketBytes);
    bytes.remove_prefix(part.size());
    absl::Status status = SendPacket(bytes.empty(), part, fds, wait || !alone);
    if (!status.ok()) return status;
    fds = {};
  } while (!bytes.empty());
  return absl::OkStatus();
}

absl::StatusOr<ControlSocket::Message> ControlSocket::Receive(bool wait) {
  int taken = 0;
  while (wait || taken < kMostPackets) {
    char packet[1 + kPacketBytes];
    iovec piece = {packet, sizeof(packet)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)];
    msghdr header = {};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control;
    // What has no room here is let go of by the kernel, and makes the packet no message.
    header.msg_controllen =
        takes_ == Takes::kDescriptors ? sizeof(control) : CMSG_SPACE(sizeof(ucred));
    const ssize_t size = recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return absl::NotFoundError("nothing has come");
    if (size < 0) return Closed(strerror(errno));
    for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry != nullptr;
         entry = CMSG_NXTHDR(&header, entry)) {
      if (entry->cmsg_level != SOL_SOCKET) continue;
      if (entry->cmsg_type == SCM_CREDENTIALS) {
        ucred sender;
        memcpy(&sender, CMSG_DATA(entry), sizeof(sender));
        partial_.sender = sender.pid;
      }
      if (entry->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        memcpy(&fd, CMSG_DATA(entry) + i * sizeof(int), sizeof(int));
        partial_.fds.emplace_back(fd);
      }
    }
    if (size == 0) return Closed("it has closed its socket");
    const size_t part = static_cast<size_t>(size) - 1;
    // All but the last are full, so that the bound holds for the number of packets too.
    const bool in_place = packet[0] == kLast || (packet[0] == kMore && part == kPacketBytes);
    if (!in_place || partial_.bytes.size() + part > kMessageBytes ||
        (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
      return Closed("it has sent what is no message");
    }
    partial_.bytes.append(packet + 1, part);
    ++taken;
    if (packet[0] == kLast) return std::exchange(partial_, Message());
  }
  return absl::NotFoundError("a message has begun to come");
}

}  // namespace invoker
