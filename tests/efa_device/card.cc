#include "tests/efa_device/card.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace efa_device {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kTimerToken = 1;
constexpr uint64_t kStopToken = 2;

// How long a card that is closed tries to send the answers that it owes.
constexpr std::chrono::seconds kLinger(1);

// The card cannot go on, and its users would wait for ever.
[[noreturn]] void Die(const char* reason) {
  fprintf(stderr, "efa_device: %s, errno %d\n", reason, errno);
  abort();
}

std::string Environment(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace

std::unique_ptr<Card> Card::Open() {
  const std::string generation = Environment("INVOKER_EFA_DEVICE_GENERATION", "efa1");
  Attributes attributes;
  if (!AttributesOf(generation, &attributes)) {
    fprintf(stderr, "efa_device: INVOKER_EFA_DEVICE_GENERATION=%s is none of efa0 to efa3\n",
            generation.c_str());
    errno = EINVAL;
    return nullptr;
  }
  std::string error;
  std::unique_ptr<Faults> faults =
      Faults::Parse(Environment("INVOKER_EFA_DEVICE_FAULTS", ""), &error);
  if (faults == nullptr) {
    fprintf(stderr, "efa_device: INVOKER_EFA_DEVICE_FAULTS: %s\n", error.c_str());
    errno = EINVAL;
    return nullptr;
  }
  Gid gid;
  if (!HostGid(&gid)) {
    fprintf(stderr,
            "efa_device: neither INVOKER_EFA_DEVICE_GID nor the network namespace gives a GID\n");
    errno = ENODEV;
    return nullptr;
  }
  const std::string directory = Environment("INVOKER_EFA_DEVICE_DIR", "");
  std::unique_ptr<Subnet> subnet = Subnet::Open(directory);
  if (subnet == nullptr) {
    const int reason = errno;
    fprintf(stderr, "efa_device: INVOKER_EFA_DEVICE_DIR=%s cannot be used\n", directory.c_str());
    errno = reason;
    return nullptr;
  }
  return std::unique_ptr<Card>(new Card(attributes, gid, std::move(subnet), std::move(faults)));
}

Card::Card(const Attributes& attributes, const Gid& gid, std::unique_ptr<Subnet> subnet,
           std::unique_ptr<Faults> faults)
    : attributes_(attributes),
      gid_(gid),
      subnet_(std::move(subnet)),
      faults_(std::move(faults)),
      card_faults_(faults_.get(), 0),
      handles_(attributes.max_address_handles),
      last_token_(kStopToken) {}

Card::~Card() {
  if (thread_ != nullptr) {
    {
      std::lock_guard<std::mutex> guard(lock_);
      stopping_ = true;
    }
    eventfd_write(stop_event_, 1);
    thread_->join();
  }
  const Clock::time_point deadline = Clock::now() + kLinger;
  for (const auto& entry : connections_) {
    Connection& connection = *entry.second;
    while (!connection.idle() && Clock::now() < deadline && connection.SendDue()) {
      pollfd room = {connection.socket(), POLLOUT, 0};
      poll(&room, 1, 1);
    }
  }
  RemoveFiles();
  for (const auto& entry : queue_pairs_) close(entry.second.listener);
  for (const int fd : {epoll_, timer_, stop_event_}) {
    if (fd >= 0) close(fd);
  }
}

bool Card::Start() {
  if (thread_ != nullptr) return true;
  subnet_->RemoveStale();
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  stop_event_ = eventfd(0, EFD_CLOEXEC);
  if (epoll_ < 0 || timer_ < 0 || stop_event_ < 0) return false;
  Watch(timer_, kTimerToken);
  Watch(stop_event_, kStopToken);
  // Signals are for the program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::make_unique<std::thread>([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return true;
}

QueuePair* Card::CreateQueuePair(QueuePair::Options options) {
  if (queue_pairs_.size() >= attributes_.max_queue_pairs) {
    errno = ENOMEM;
    return nullptr;
  }
  if (!Start()) return nullptr;
  Entry entry;
  entry.listener = subnet_->Listen(gid_, attributes_.max_queue_pairs - 1, &options.qpn);
  if (entry.listener < 0) {
    errno = -entry.listener;
    return nullptr;
  }
  entry.ordinal = ++created_;
  options.gid = gid_;
  options.attributes = &attributes_;
  options.memory = &memory_;
  options.handles = &handles_;
  entry.queue_pair = std::make_unique<QueuePair>(
      options, Faults::Stream(faults_.get(), entry.ordinal), static_cast<Link*>(this));
  entry.listener_token = ++last_token_;
  listeners_[entry.listener_token] = options.qpn;
  QueuePair* const queue_pair = entry.queue_pair.get();
  Watch(entry.listener, entry.listener_token);
  queue_pairs_[options.qpn] = std::move(entry);
  return queue_pair;
}

void Card::DestroyQueuePair(QueuePair* queue_pair) {
  const uint32_t qpn = queue_pair->qpn();
  const auto found = queue_pairs_.find(qpn);
  if (found == queue_pairs_.end()) return;  // the parent's, before a fork
  Entry& entry = found->second;
  subnet_->Remove(gid_, qpn);
  close(entry.listener);
  listeners_.erase(entry.listener_token);
  // Its requests end here. The answers that it owes still go out.
  std::vector<Token> ended;
  for (const auto& connection : connections_) {
    if (connection.second->qpn() != qpn) continue;
    if (connection.second->outgoing() || connection.second->idle()) {
      ended.push_back(connection.first);
    }
  }
  for (const Token token : ended) Drop(token);
  lost_.erase(qpn);
  queue_pair->options().send_queue->Purge(qpn);
  queue_pair->options().receive_queue->Purge(qpn);
  queue_pairs_.erase(found);
}

void Card::Disown() {
  connections_.clear();
  listeners_.clear();
  retransmissions_.clear();
  lost_.clear();
  for (auto& entry : queue_pairs_) {
    close(entry.second.listener);
    entry.second.queue_pair.release();  // the user still has it
  }
  queue_pairs_.clear();
  for (int* fd : {&epoll_, &timer_, &stop_event_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  thread_.release();  // it runs in the parent
  subnet_->Reopen();
}

void Card::RemoveFiles() {
  for (const auto& entry : queue_pairs_) subnet_->Remove(gid_, entry.first);
}

Status Card::Transmit(QueuePair* from, const Peer& to, const Frame& frame) {
  const auto found = queue_pairs_.find(from->qpn());
  if (found == queue_pairs_.end() || found->second.queue_pair.get() != from) {
    return Status::kInternalError;
  }
  Entry& entry = found->second;
  const auto known = entry.outgoing.find(to);
  Token token;
  if (known != entry.outgoing.end()) {
    token = known->second;
  } else {
    const int socket = subnet_->Connect(to.gid, to.qpn);
    if (socket == -ECONNREFUSED) return Status::kBadDestinationQueuePair;
    if (socket == -ENETUNREACH || socket == -EAGAIN) return Status::kUnresponsiveRemote;
    if (socket < 0) {
      fprintf(stderr, "efa_device: no connection to a peer, errno %d\n", -socket);
      return Status::kInternalError;
    }
    token = AddConnection(socket, from->qpn(), &entry, true, to);
    entry.outgoing[to] = token;
  }
  const std::shared_ptr<Connection> connection = connections_[token];
  if (!connection->Send(frame)) {
    Lose(token);
    return Status::kOk;
  }
  SendRest(connection.get(), token);
  return Status::kOk;
}

void Card::RetransmitAfter(std::chrono::microseconds delay, QueuePair* from, uint64_t number) {
  retransmissions_.emplace(Clock::now() + delay, Retransmission{from->qpn(), number});
  SetTimer();
}

void Card::Run() {
  pthread_setname_np(pthread_self(), "efa_device");
  std::vector<epoll_event> events(64);
  while (true) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    std::lock_guard<std::mutex> guard(lock_);
    if (stopping_) return;
    for (int i = 0; i < count; ++i) {
      const Token token = events[i].data.u64;
      if (token == kTimerToken) {
        uint64_t times;
        if (read(timer_, &times, sizeof(times)) == sizeof(times)) RunTimers();
        continue;
      }
      const auto listener = listeners_.find(token);
      if (listener != listeners_.end()) {
        Accept(listener->second);
        continue;
      }
      // An event before this one may have ended it.
      const auto connection = connections_.find(token);
      if (connection != connections_.end()) {
        Serve(std::shared_ptr<Connection>(connection->second), token, events[i].events);
      }
    }
  }
}

void Card::Accept(uint32_t qpn) {
  Entry& entry = queue_pairs_[qpn];
  const int socket = accept4(entry.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket >= 0) {
    AddConnection(socket, qpn, &entry, false, Peer());
  } else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
    Die("cannot accept a connection");
  }
}

Card::Token Card::AddConnection(int socket, uint32_t qpn, Entry* entry, bool outgoing,
                                const Peer& to) {
  const Token token = ++last_token_;
  // By the other end's number and not by the order of connections, which depends on time.
  const Faults::Stream faults =
      Faults::Stream(faults_.get(), entry->ordinal).Part(outgoing ? 1 + uint64_t{to.qpn} : 0);
  connections_[token] = std::make_shared<Connection>(socket, qpn, outgoing, to, faults);
  Watch(socket, token);
  return token;
}

void Card::Serve(const std::shared_ptr<Connection>& connection, Token token, uint32_t events) {
  std::vector<Frame> frames;
  const bool open = connection->Receive(&frames);
  bool works = true;
  for (const Frame& frame : frames) {
    const auto found = queue_pairs_.find(connection->qpn());
    if (connection->outgoing()) {
      if (frame.kind == FrameKind::kAnswer && found != queue_pairs_.end()) {
        found->second.queue_pair->HandleAnswer(frame);
      }
      continue;
    }
    Frame answer;
    bool wanted = !frame.unreliable;
    if (found != queue_pairs_.end()) {
      wanted = found->second.queue_pair->HandleRequest(frame, &answer);
    } else {
      answer = AnswerTo(frame, gid_, connection->qpn());
      answer.status = Status::kBadDestinationQueuePair;
    }
    if (wanted) works = connection->Send(answer) && works;
  }
  if (connections_.count(token) == 0) return;  // a post in between ended it
  if ((events & EPOLLOUT) != 0) works = connection->SendMore() && works;
  if (!open || !works) {
    Lose(token);
    return;
  }
  SendRest(connection.get(), token);
  // All answers of the destroyed queue pair have gone out.
  if (queue_pairs_.count(connection->qpn()) == 0 && connection->idle()) Drop(token);
}

void Card::RunTimers() {
  const Clock::time_point now = Clock::now();
  const auto lost = std::move(lost_);
  lost_.clear();
  for (const auto& entry : lost) {
    const auto found = queue_pairs_.find(entry.first);
    if (found != queue_pairs_.end()) found->second.queue_pair->PeerLost(entry.second);
  }
  while (!retransmissions_.empty() && retransmissions_.begin()->first <= now) {
    const Retransmission next = retransmissions_.begin()->second;
    retransmissions_.erase(retransmissions_.begin());
    const auto found = queue_pairs_.find(next.qpn);
    if (found != queue_pairs_.end()) found->second.queue_pair->Retransmit(next.number);
  }
  std::vector<std::pair<Token, std::shared_ptr<Connection>>> due;
  for (const auto& entry : connections_) {
    const Shuffler& shuffler = entry.second->shuffler();
    if (!shuffler.empty() && shuffler.NextDue() <= now) due.push_back(entry);
  }
  for (const auto& entry : due) {
    if (entry.second->SendDue()) {
      WatchRoom(entry.second.get(), entry.first);
    } else {
      Lose(entry.first);
    }
  }
  SetTimer();
}

void Card::Watch(int fd, Token token) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) Die("cannot wait for a socket");
}

void Card::SendRest(Connection* connection, Token token) {
  WatchRoom(connection, token);
  if (!connection->shuffler().empty()) SetTimer();
}

void Card::WatchRoom(Connection* connection, Token token) {
  if (!connection->RoomWatchChanges()) return;
  epoll_event event = {};
  event.events = EPOLLIN | (connection->waits_for_room() ? EPOLLOUT : 0u);
  event.data.u64 = token;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, connection->socket(), &event);
}

void Card::SetTimer() {
  Clock::time_point due = Clock::time_point::max();
  if (!lost_.empty()) due = Clock::now();
  if (!retransmissions_.empty()) due = std::min(due, retransmissions_.begin()->first);
  for (const auto& entry : connections_) {
    const Shuffler& shuffler = entry.second->shuffler();
    if (!shuffler.empty()) due = std::min(due, shuffler.NextDue());
  }
  itimerspec when = {};
  if (due != Clock::time_point::max()) {
    // Zero would stop the timer.
    const int64_t nanoseconds = std::max<int64_t>(
        1, std::chrono::duration_cast<std::chrono::nanoseconds>(due - Clock::now()).count());
    when.it_value.tv_sec = nanoseconds / 1000000000;
    when.it_value.tv_nsec = nanoseconds % 1000000000;
  }
  timerfd_settime(timer_, 0, &when, nullptr);
}

void Card::Drop(Token token) {
  const auto found = connections_.find(token);
  if (found == connections_.end()) return;
  const Connection& connection = *found->second;
  const auto entry = queue_pairs_.find(connection.qpn());
  if (connection.outgoing() && entry != queue_pairs_.end()) {
    entry->second.outgoing.erase(connection.to());
  }
  epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.socket(), nullptr);
  connections_.erase(found);
}

void Card::Lose(Token token) {
  const std::shared_ptr<Connection> connection = connections_[token];
  Drop(token);
  if (!connection->outgoing()) return;
  lost_.emplace(connection->qpn(), connection->to());
  SetTimer();
}

}  // namespace efa_device
