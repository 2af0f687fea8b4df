// A worker in a program of its own, whose function waits for sockets, and a client that calls it
// many times at once.
//
//   examples/run socket_gateway
//
// The function "ask" asks another server over TCP. It takes no thread while it waits: one executor
// begins all calls, and one thread waits for all sockets with epoll and answers. The other server
// is in this program, too. It answers nothing until all questions have come, so the program ends
// only if all calls wait at the same time. examples/python/socket_gateway.py is the same in Python.

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "invoker/client.h"
#include "invoker/server.h"

namespace {

constexpr int kCalls = 100;  // at a time

// The result of a system call, or an exception that names the call.
template <typename Integer>
Integer Checked(Integer result, const char* call) {
  if (result < 0) throw std::system_error(errno, std::system_category(), call);
  return result;
}

// A file descriptor, which is closed in the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int operator*() const { return number_; }

 private:
  const int number_;
};

sockaddr_in Loopback(in_port_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = port;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// The next bytes from a socket: at least one.
std::string Receive(int fd) {
  std::array<char, 4096> buffer;
  const ssize_t size = Checked(recv(fd, buffer.data(), buffer.size(), 0), "recv");
  if (size == 0) throw std::runtime_error("the connection has been closed");
  return std::string(buffer.data(), size);
}

// Asks a server at a port of this machine, for any number of calls at a time.
class Gateway {
 public:
  explicit Gateway(in_port_t port) : address_(Loopback(port)) {
    Watch(*stop_, EPOLL_CTL_ADD, EPOLLIN);
    thread_ = std::thread([this] { Run(); });
  }
  // The server that calls Ask has stopped.
  ~Gateway() {
    eventfd_write(*stop_, 1);
    thread_.join();
  }

  // The function. It runs on the executor's thread, and returns before there is an answer. An
  // exception fails the call.
  void Ask(invoker::Reply<std::string> reply, const std::string& question) {
    const int fd =
        Checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
    auto call = std::make_unique<Call>(fd, std::move(reply), question + "\n");
    const int connected =
        connect(fd, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_));
    if (errno != EINPROGRESS) Checked(connected, "connect");
    std::lock_guard<std::mutex> lock(mutex_);
    calls_.emplace(fd, std::move(call));
    Watch(fd, EPOLL_CTL_ADD, EPOLLOUT);
  }

 private:
  struct Call {
    Call(int fd, invoker::Reply<std::string> its_reply, std::string question)
        : socket(fd), reply(std::move(its_reply)), unsent(std::move(question)) {}

    const Descriptor socket;
    invoker::Reply<std::string> reply;
    std::string unsent;
    std::string received;
  };

  void Watch(int fd, int operation, uint32_t events) {
    epoll_event event = {};
    event.events = events;
    event.data.fd = fd;
    Checked(epoll_ctl(*epoll_, operation, fd, &event), "epoll_ctl");
  }

  // The thread that waits for the sockets.
  void Run() {
    std::array<epoll_event, 64> events;
    for (;;) {
      const int ready = epoll_wait(*epoll_, events.data(), events.size(), -1);
      for (int i = 0; i < ready; ++i) {
        const int fd = events[i].data.fd;
        if (fd == *stop_) return;
        std::lock_guard<std::mutex> lock(mutex_);
        Call& call = *calls_.at(fd);
        bool has_answer = false;
        try {
          has_answer = Continue(call);
        } catch (const std::exception& error) {
          has_answer = call.reply.Fail(error.what());
        }
        if (has_answer) calls_.erase(fd);
      }
    }
  }

  // Sends or receives, since the socket is ready. Returns true when the call has its answer.
  bool Continue(Call& call) {
    const int fd = *call.socket;
    if (!call.unsent.empty()) {
      call.unsent.erase(
          0, Checked(send(fd, call.unsent.data(), call.unsent.size(), MSG_NOSIGNAL), "send"));
      if (call.unsent.empty()) Watch(fd, EPOLL_CTL_MOD, EPOLLIN);
      return false;
    }
    call.received += Receive(fd);
    if (call.received.back() != '\n') return false;
    call.received.pop_back();
    return call.reply(call.received);
  }

  const sockaddr_in address_;
  const Descriptor epoll_{Checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")};
  const Descriptor stop_{Checked(eventfd(0, EFD_CLOEXEC), "eventfd")};
  std::mutex mutex_;
  std::map<int, std::unique_ptr<Call>> calls_;  // by their sockets; under mutex_
  std::thread thread_;
};

// The other server. It fails if it has waited for 30 s.
class Backend {
 public:
  Backend() {
    const timeval limit = {30, 0};  // its connections have the same
    Checked(setsockopt(*listener_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), "setsockopt");
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    Checked(bind(*listener_, reinterpret_cast<sockaddr*>(&address), size), "bind");
    Checked(listen(*listener_, kCalls), "listen");
    Checked(getsockname(*listener_, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
    port_ = address.sin_port;
  }

  in_port_t port() const { return port_; }

  // Waits for one more question.
  void Take() {
    connections_.emplace_back(
        Checked(accept4(*listener_, nullptr, nullptr, SOCK_CLOEXEC), "accept"));
    std::string question = Receive(*connections_.back());
    while (question.back() != '\n') question += Receive(*connections_.back());
    questions_.push_back(std::move(question));
  }

  // Answers all questions, the last one first.
  void Answer() {
    for (size_t i = questions_.size(); i-- > 0;) {
      const std::string answer = "the answer to " + questions_[i];
      Checked(send(*connections_[i], answer.data(), answer.size(), MSG_NOSIGNAL), "send");
    }
  }

 private:
  const Descriptor listener_{Checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")};
  in_port_t port_;
  std::deque<Descriptor> connections_;
  std::vector<std::string> questions_;
};

absl::Status Run() {
  Backend backend;
  Gateway gateway(backend.port());

  // One executor, at a free port of 127.0.0.1.
  invoker::Server server;
  server.Register("ask", [&gateway](invoker::Reply<std::string> reply, std::string question) {
    gateway.Ask(std::move(reply), question);
  });
  server.Register("twice", [](double number) { return 2 * number; });
  if (absl::Status status = server.Start(); !status.ok()) return status;

  invoker::ClientOptions client_options;
  client_options.worker_in_this_process = true;
  auto client = invoker::Client::Connect(server.address(), client_options);
  if (!client.ok()) return client.status();
  // Callers do not see that "ask" answers later.
  auto ask = (*client)->Function<std::string(std::string)>("ask");
  if (!ask.ok()) return ask.status();
  auto twice = (*client)->Function<double(double)>("twice");
  if (!twice.ok()) return twice.status();

  // Each call says how much room its answer needs, so that all of them find some.
  invoker::CallOptions options;
  options.timeout = absl::Seconds(30);
  options.response_capacity = 256;
  std::vector<invoker::TypedFuture<std::string, invoker::Future>> answers;
  for (int i = 0; i < kCalls; ++i) {
    answers.push_back(ask->With(options).Start("question " + std::to_string(i)));
  }
  for (int i = 0; i < kCalls; ++i) backend.Take();
  absl::StatusOr<double> meanwhile = (*twice)(21);
  if (!meanwhile.ok()) return meanwhile.status();
  backend.Answer();

  for (int i = 0; i < kCalls; ++i) {
    absl::StatusOr<std::string> answer = answers[i].Get();
    if (!answer.ok()) return answer.status();
    if (*answer != "the answer to question " + std::to_string(i)) {
      return absl::DataLossError("call " + std::to_string(i) + " got " + *answer);
    }
  }
  if (*meanwhile != 42) return absl::DataLossError("twice(21) is wrong");
  if (server.CallsRun() != kCalls + 1) {
    return absl::DataLossError("the server has run " + std::to_string(server.CallsRun()) +
                               " calls");
  }
  std::cout << kCalls << " calls of ask waited for sockets at the same time, on one executor, and "
            << "all have their answers\n"
            << "twice(21) answered meanwhile: " << *meanwhile << "\n";
  (*client)->Close();
  server.Stop();
  return absl::OkStatus();
}

}  // namespace

int main() {
  try {
    const absl::Status status = Run();
    if (status.ok()) return 0;
    std::cerr << "socket_gateway: " << status << "\n";
  } catch (const std::exception& error) {
    std::cerr << "socket_gateway: " << error.what() << "\n";
  }
  return 1;
}
