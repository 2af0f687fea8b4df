#include "tests/efa_device/provider_peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gtest/gtest.h"
#include "tests/contract_providers/delivery_write.h"

namespace efa_device {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than a healthy operation takes, however busy the machine is.
constexpr std::chrono::seconds kGiveUp(20);

constexpr size_t kEchoBytes = 1 << 20;
constexpr char kPeerFlag[] = "--efa-device-peer";

void Check(const char* call, ssize_t code) {
  if (code >= 0) return;
  fprintf(stderr, "%s: %s\n", call, fi_strerror(static_cast<int>(-code)));
  exit(1);
}

void CheckErrno(const char* call, bool ok) {
  if (ok) return;
  perror(call);
  exit(1);
}

// The first message of a peer process.
struct Introduction {
  char name[64];
  uint32_t name_length;
  uint64_t address;
  uint64_t key;
};

}  // namespace

Endpoint::Endpoint() : memory_(kMemory) {
  fi_info* hints = fi_allocinfo();
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup("efa");
  hints->fabric_attr->name = strdup("efa");
  Check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info_));
  fi_freeinfo(hints);
  Check("fi_fabric", fi_fabric(info_->fabric_attr, &fabric_, nullptr));
  Check("fi_domain", fi_domain(fabric_, info_, &domain_, nullptr));
  fi_cq_attr queue = {};
  queue.format = FI_CQ_FORMAT_DATA;
  Check("fi_cq_open", fi_cq_open(domain_, &queue, &queue_, nullptr));
  fi_av_attr addresses = {};
  addresses.type = FI_AV_TABLE;
  Check("fi_av_open", fi_av_open(domain_, &addresses, &addresses_, nullptr));
  Check("fi_endpoint", fi_endpoint(domain_, info_, &endpoint_, nullptr));
  Check("fi_ep_bind", fi_ep_bind(endpoint_, &addresses_->fid, 0));
  Check("fi_ep_bind", fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV));
  Check("fi_enable", fi_enable(endpoint_));
  Check("fi_mr_reg",
        fi_mr_reg(domain_, memory_.data(), memory_.size(),
                  FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0,
                  0, &region_, nullptr));
}

Endpoint::~Endpoint() {
  Check("fi_close of the region", fi_close(&region_->fid));
  Check("fi_close of the endpoint", fi_close(&endpoint_->fid));
  Check("fi_close of the addresses", fi_close(&addresses_->fid));
  Check("fi_close of the queue", fi_close(&queue_->fid));
  Check("fi_close of the domain", fi_close(&domain_->fid));
  Check("fi_close of the fabric", fi_close(&fabric_->fid));
  fi_freeinfo(info_);
}

std::string Endpoint::name() const {
  char name[64];
  size_t length = sizeof(name);
  Check("fi_getname", fi_getname(&endpoint_->fid, name, &length));
  return std::string(name, length);
}

uint64_t Endpoint::key() const { return fi_mr_key(region_); }

fi_addr_t Endpoint::Insert(const std::string& name) {
  fi_addr_t address = FI_ADDR_NOTAVAIL;
  if (fi_av_insert(addresses_, name.data(), 1, &address, 0, nullptr) != 1) {
    return FI_ADDR_NOTAVAIL;
  }
  return address;
}

void Endpoint::Poll() {
  fi_cq_data_entry entries[16];
  const ssize_t count = fi_cq_read(queue_, entries, 16);
  if (count > 0) {
    ended_ += static_cast<size_t>(count);
    for (ssize_t i = 0; i < count; ++i) {
      if ((entries[i].flags & FI_RECV) != 0) last_length_ = entries[i].len;
    }
  } else if (count == -FI_EAVAIL) {
    fi_cq_err_entry entry = {};
    Check("fi_cq_readerr", fi_cq_readerr(queue_, &entry, 0));
    ++ended_;
    if (failure_.error == 0) failure_ = Outcome{entry.err, entry.prov_errno};
  } else if (count != -FI_EAGAIN) {
    Check("fi_cq_read", count);
  }
}

template <typename Post>
void Endpoint::Until(const char* name, const Post& post) {
  ssize_t code;
  while ((code = post()) == -FI_EAGAIN) Poll();
  Check(name, code);
}

Outcome Endpoint::WaitFor(size_t count) {
  const Clock::time_point end = Clock::now() + kGiveUp;
  while (ended_ < count) {
    Poll();
    if (Clock::now() > end) return Outcome{-1, 0};
  }
  const Outcome outcome = failure_;
  ended_ -= count;
  failure_ = Outcome();
  return outcome;
}

void Endpoint::PostSend(fi_addr_t to, size_t offset, size_t length) {
  Until("fi_send", [&] {
    return fi_send(endpoint_, &memory_[offset], length, fi_mr_desc(region_), to, nullptr);
  });
}

void Endpoint::PostReceive(size_t offset, size_t length) {
  Until("fi_recv", [&] {
    return fi_recv(endpoint_, &memory_[offset], length, fi_mr_desc(region_), FI_ADDR_UNSPEC,
                   nullptr);
  });
}

Outcome Endpoint::Send(fi_addr_t to, size_t offset, size_t length) {
  PostSend(to, offset, length);
  return WaitFor(1);
}

void Endpoint::Echo(fi_addr_t to) {
  Poll();
  if (echo_ != EchoState::kIdle && ended_ == 0) return;
  const size_t offset = kMemory - kEchoBytes;
  if (echo_ == EchoState::kReceiving) {
    PostSend(to, offset, last_length_);
    echo_ = EchoState::kSending;
  } else {
    PostReceive(offset, kEchoBytes);
    echo_ = EchoState::kReceiving;
  }
  ended_ = 0;
}

Outcome Endpoint::Write(fi_addr_t to, size_t offset, size_t length, uint64_t address,
                        uint64_t key) {
  Until("fi_writemsg", [&] {
    return contract::DeliveryWrite(endpoint_, &memory_[offset], fi_mr_desc(region_), length, to,
                                   address, key, nullptr);
  });
  return WaitFor(1);
}

Outcome Endpoint::Read(fi_addr_t from, size_t offset, size_t length, uint64_t address,
                       uint64_t key) {
  Until("fi_read", [&] {
    return fi_read(endpoint_, &memory_[offset], length, fi_mr_desc(region_), from, address, key,
                   nullptr);
  });
  return WaitFor(1);
}

PeerProcess::PeerProcess(const Endpoint& other, bool own_network) {
  int sockets[2];
  CheckErrno("socketpair", socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
  CheckErrno("fcntl", fcntl(sockets[0], F_SETFD, FD_CLOEXEC) == 0);
  const std::string child_socket = std::to_string(sockets[1]);
  char program[] = "/proc/self/exe";
  std::string flag = kPeerFlag;
  std::string network = own_network ? "1" : "0";
  char* arguments[] = {program, flag.data(), const_cast<char*>(child_socket.c_str()),
                       network.data(), nullptr};
  errno = posix_spawn(&pid_, program, nullptr, nullptr, arguments, environ);
  CheckErrno("posix_spawn", errno == 0);
  close(sockets[1]);
  socket_ = sockets[0];
  Introduction introduction;
  CheckErrno("the peer's introduction",
             recv(socket_, &introduction, sizeof(introduction), 0) == sizeof(introduction));
  name_.assign(introduction.name, introduction.name_length);
  address_ = introduction.address;
  key_ = introduction.key;
  const std::string name = other.name();
  send(socket_, name.data(), name.size(), MSG_NOSIGNAL);
}

PeerProcess::~PeerProcess() {
  close(socket_);
  if (pid_ < 0) return;
  int status = 0;
  waitpid(pid_, &status, 0);
  EXPECT_EQ(status, 0) << "the peer's end";
}

void PeerProcess::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  // The provider keeps a file for its shm transfer, which only an orderly end removes.
  char gid[INET6_ADDRSTRLEN];
  uint16_t qpn;
  uint32_t qkey;
  memcpy(&qpn, &name_[16], sizeof(qpn));
  memcpy(&qkey, &name_[20], sizeof(qkey));
  inet_ntop(AF_INET6, name_.data(), gid, sizeof(gid));
  char file[128];
  snprintf(file, sizeof(file), "%s_%04x_%08x_%04x", gid, qpn, qkey, getuid());
  shm_unlink(file);
}

bool PeerProcess::Run(int argc, char** argv) {
  if (argc != 4 || strcmp(argv[1], kPeerFlag) != 0) return false;
  const int socket = atoi(argv[2]);
  if (argv[3][0] == '1') {
    // Without privileges, a user namespace of its own gives them.
    CheckErrno("unshare", unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
  }
  Endpoint endpoint;
  Fill(endpoint.memory(), Endpoint::kMemory, 1);
  Introduction introduction = {};
  const std::string name = endpoint.name();
  memcpy(introduction.name, name.data(), name.size());
  introduction.name_length = static_cast<uint32_t>(name.size());
  introduction.address = endpoint.address();
  introduction.key = endpoint.key();
  send(socket, &introduction, sizeof(introduction), 0);
  // Then the parent tells its own address, and its death or the end of the test.
  char parent[64];
  const ssize_t length = recv(socket, parent, sizeof(parent), 0);
  if (length <= 0) return true;
  const fi_addr_t to = endpoint.Insert(std::string(parent, static_cast<size_t>(length)));
  while (recv(socket, parent, sizeof(parent), MSG_DONTWAIT) != 0) endpoint.Echo(to);
  return true;
}

void Fill(uint8_t* bytes, size_t length, uint64_t seed) {
  for (size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<uint8_t>((seed * 0x9e3779b97f4a7c15 + i * 0x100000001b3) >> 13);
  }
}

bool IsFilled(const uint8_t* bytes, size_t length, uint64_t seed) {
  std::vector<uint8_t> expected(length);
  Fill(expected.data(), length, seed);
  return length == 0 || memcmp(bytes, expected.data(), length) == 0;
}

}  // namespace efa_device
