#include "tests/efa_device/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace efa_device {
namespace {

constexpr int kFramesAtATime = 64;

}  // namespace

Connection::~Connection() { close(socket_); }

bool Connection::Send(const Frame& frame) {
  std::vector<std::string> ready;
  shuffler_.Offer(Encode(frame), std::chrono::steady_clock::now(), &ready);
  for (std::string& bytes : ready) waiting_.push_back(std::move(bytes));
  return SendMore();
}

bool Connection::SendDue() {
  std::vector<std::string> ready;
  shuffler_.TakeDue(std::chrono::steady_clock::now(), &ready);
  for (std::string& bytes : ready) waiting_.push_back(std::move(bytes));
  return SendMore();
}

bool Connection::SendMore() {
  while (!waiting_.empty()) {
    const std::string& bytes = waiting_.front();
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
    waiting_.pop_front();
  }
  return true;
}

bool Connection::RoomWatchChanges() {
  const bool before = room_watched_;
  room_watched_ = waits_for_room();
  return room_watched_ != before;
}

bool Connection::Receive(std::vector<Frame>* frames) {
  std::string buffer(MaxFrameBytes(), '\0');
  for (int i = 0; i < kFramesAtATime; ++i) {
    const ssize_t size = recv(socket_, &buffer[0], buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (size == 0) return false;
    if (size < 0) {
      // A reset says that the peer closed with frames unread. What it sent before still comes.
      if (errno == EINTR || errno == ECONNRESET) continue;
      return errno == EAGAIN;
    }
    Frame frame;
    if (static_cast<size_t>(size) > buffer.size() ||
        !Decode(buffer.data(), static_cast<size_t>(size), &frame)) {
      fprintf(stderr, "efa_device: %zd bytes that are no frame arrived at queue pair %u\n", size,
              qpn_);
      return false;
    }
    frames->push_back(std::move(frame));
  }
  return true;
}

}  // namespace efa_device
