#include "tests/conformance/peer_process.h"

#include <netinet/in.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "src/base/hex.h"
#include "tests/conformance/tested_fabric.h"
#include "tests/integration/server_process.h"

namespace invoker::conformance {
namespace {

using transport::Node;
using transport::RemoteWindow;
using transport::Way;

// Turns without work before a peer sleeps: tests share few cores.
constexpr int kIdleTurns = 2000;

// A signal that comes just before it does not end the sleep.
constexpr absl::Duration kLongestWait = absl::Milliseconds(20);

// What one side says of itself: address in hexadecimal, then base, length and key of its window.
std::string Describe(const Node& node, const std::string& address) {
  return absl::StrCat(absl::BytesToHexString(address), " ", node.window.remote_base(), " ",
                      node.window.size(), " ", node.window.key());
}

bool ParseDescription(const std::string& line, std::string* address, RemoteWindow* window) {
  const std::vector<std::string> parts = absl::StrSplit(line, ' ');
  if (parts.size() != 4 || parts[0].empty()) return false;
  absl::optional<std::string> bytes = BytesFromHex(parts[0]);
  if (!bytes.has_value()) return false;
  *address = *std::move(bytes);
  return absl::SimpleAtoi(parts[1], &window->base) && absl::SimpleAtoi(parts[2], &window->length) &&
         absl::SimpleAtoi(parts[3], &window->key);
}

// Makes the endpoint that `choice` describes take the port of the IP address `old`.
void TakePort(const std::string& old, transport::FabricChoice* choice) {
  if (choice->info->src_addr == nullptr) return;
  auto* own = static_cast<sockaddr*>(choice->info->src_addr);
  if (own->sa_family == AF_INET && old.size() >= sizeof(sockaddr_in)) {
    reinterpret_cast<sockaddr_in*>(own)->sin_port =
        reinterpret_cast<const sockaddr_in*>(old.data())->sin_port;
  } else if (own->sa_family == AF_INET6 && old.size() >= sizeof(sockaddr_in6)) {
    reinterpret_cast<sockaddr_in6*>(own)->sin6_port =
        reinterpret_cast<const sockaddr_in6*>(old.data())->sin6_port;
  }
}

// By StandStill.
std::atomic<bool> g_stand_still{false};

int Complain(const std::string& what) {
  std::fprintf(stderr, "peer: %s\n", what.c_str());
  return 1;
}

}  // namespace

// Arguments: kPeerFlag, the way's name, the other side's description, the old address in
// hexadecimal.
int RunPeer(int argc, char** argv) {
  if (argc != 5) return Complain("wrong arguments");
  const Way* way = nullptr;
  const std::vector<Way> ways = EveryWay();
  for (const Way& candidate : ways) {
    if (std::string(candidate.name) == argv[2]) way = &candidate;
  }
  std::string other_address;
  RemoteWindow other;
  const absl::optional<std::string> old_address = BytesFromHex(argv[4]);
  if (way == nullptr || !old_address.has_value() ||
      !ParseDescription(argv[3], &other_address, &other)) {
    return Complain("wrong arguments");
  }
  absl::StatusOr<transport::FabricChoice> choice = transport::Discover(Tested().request);
  if (choice.ok()) TakePort(*old_address, &*choice);
  const std::unique_ptr<Node> node = Node::Open(std::move(choice), kPeerBytes);
  if (node == nullptr) return 1;
  const auto inserted = node->reactor().peers().Insert(other_address);
  if (!inserted.ok()) return Complain(inserted.status().ToString());
  other.peer = (*inserted)->address;

  bool ended = false;
  bool answered = true;
  node->on_token = [&](uint32_t token) {
    if (token == kEndToken) {
      ended = true;
      return;
    }
    memcpy(node->source.data(), node->window.data(), kPeerBytes);
    answered &= node->Write(*way, other, 0, kPeerBytes, token);
  };
  signal(SIGUSR1, [](int) { g_stand_still.store(true, std::memory_order_relaxed); });
  std::printf("%s\n", Describe(*node, node->reactor().address()).c_str());
  std::fflush(stdout);
  int idle = 0;
  while (!ended || node->outstanding() > 0) {
    if (g_stand_still.exchange(false, std::memory_order_relaxed)) raise(SIGSTOP);
    if (!answered) return Complain("every operation is taken");
    if (!node->failures.empty()) return Complain(node->failures[0].status.ToString());
    idle = node->reactor().Poll() > 0 ? 0 : idle + 1;
    if (idle > kIdleTurns && node->outstanding() == 0) {
      node->reactor().Wait(kLongestWait);
    }
  }
  return 0;
}

std::unique_ptr<PeerProcess> PeerProcess::Start(Node* node, const Way& way,
                                                const std::string& old_address) {
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(
      {{"/proc/self/exe", kPeerFlag, way.name, Describe(*node, node->reactor().address()),
        absl::BytesToHexString(old_address)}});
  if (!child.ok()) {
    ADD_FAILURE() << child.status();
    return nullptr;
  }
  std::unique_ptr<PeerProcess> peer(new PeerProcess(node, way, *std::move(child)));
  const absl::StatusOr<std::string> line = peer->child_->FirstLine();
  if (!line.ok() && !old_address.empty() && absl::StrContains(peer->log(), "in use")) {
    return nullptr;
  }
  if (!line.ok() || !ParseDescription(*line, &peer->address_, &peer->window_)) {
    ADD_FAILURE() << "the peer process did not start: " << line.status() << peer->log();
    return nullptr;
  }
  return peer->Insert() ? std::move(peer) : nullptr;
}

PeerProcess::~PeerProcess() {
  Release();
  Kill();
}

bool PeerProcess::Insert() {
  const auto inserted = node_->reactor().peers().Insert(address_);
  EXPECT_TRUE(inserted.ok()) << inserted.status();
  if (!inserted.ok()) return false;
  peer_ = *inserted;
  window_.peer = peer_->address;
  return true;
}

void PeerProcess::Release() {
  if (peer_ != nullptr) node_->reactor().peers().Release(peer_);
  peer_ = nullptr;
}

bool PeerProcess::RoundTrip(uint32_t message, size_t length) {
  Stamp(node_->source.data(), length, message);
  node_->tokens.clear();
  if (!node_->Write(way_, window_, 0, length, message)) return false;
  const bool came = transport::PollUntil(
      {node_}, [&] { return !node_->tokens.empty() || !node_->failures.empty(); });
  EXPECT_TRUE(node_->failures.empty()) << node_->failures[0].status;
  EXPECT_TRUE(came && !node_->tokens.empty()) << "no answer from the peer process " << log();
  if (node_->tokens.empty()) return false;
  EXPECT_EQ(node_->tokens, std::vector<uint32_t>{message});
  const size_t right = FirstDifference(node_->window.data(), length, message);
  EXPECT_EQ(right, length) << "of the bytes that came back";
  return right == length;
}

int PeerProcess::End() {
  EXPECT_TRUE(node_->Write(way_, window_, 0, 0, kEndToken));
  EXPECT_TRUE(transport::PollUntil({node_}, [&] { return node_->outstanding() == 0; }));
  // Some fabrics move a write only while the writer polls.
  for (int i = 0; i < 2000; ++i) node_->reactor().Poll();
  ended_ = true;
  return child_->Wait();
}

void PeerProcess::StandStill() {
  child_->Signal(SIGUSR1);
  const absl::Time limit = absl::Now() + kPatience;
  while (absl::Now() < limit) {
    // "PID (name) S ...", of a name without parentheses; nothing of a process that has gone.
    std::ifstream stat(absl::StrCat("/proc/", pid(), "/stat"));
    std::string line;
    std::getline(stat, line);
    const size_t end = line.rfind(')');
    if (end == std::string::npos || end + 2 >= line.size()) return;
    const char state = line[end + 2];
    if (state == 'T' || state == 'Z' || state == 'X') return;
    absl::SleepFor(absl::Milliseconds(1));
  }
  ADD_FAILURE() << "the peer process does not come to stand still " << log();
}

void PeerProcess::Kill() {
  if (!ended_) {
    StandStill();
    child_->Signal(SIGKILL);
    child_->Wait();
    ended_ = true;
  }
  for (const std::string& name : SharedMemoryOf(pid())) unlink(("/dev/shm/" + name).c_str());
}

}  // namespace invoker::conformance
