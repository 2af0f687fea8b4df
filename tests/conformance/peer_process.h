// A peer in a process of its own, which answers every write with the same bytes and the same token.
//
// The process is this very program, started with kPeerFlag.

#ifndef INVOKER_TESTS_CONFORMANCE_PEER_PROCESS_H_
#define INVOKER_TESTS_CONFORMANCE_PEER_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tests/integration/child_process.h"
#include "tests/transport/node.h"

namespace invoker::conformance {

inline constexpr char kPeerFlag[] = "--peer";

// Tells a peer to end.
inline constexpr uint32_t kEndToken = 0xfffffffe;

// Bytes of every peer's window, and of the window in which it answers.
inline constexpr size_t kPeerBytes = 16384;

// What main() does in the peer's process.
int RunPeer(int argc, char** argv);

class PeerProcess {
 public:
  // Starts a peer of `node`, whose window has kPeerBytes, and waits until it can be written to. If
  // `old_address` is not empty, the peer takes the IP port of that endpoint; nullptr if somebody
  // else has it by now. Fails the test and returns nullptr on an error.
  static std::unique_ptr<PeerProcess> Start(transport::Node* node, const transport::Way& way,
                                            const std::string& old_address = "");
  // Kills it, if it still runs.
  ~PeerProcess();

  // The peer's raw endpoint address.
  const std::string& address() const { return address_; }

  // Inserts the address into the node's address vector. False, with a failure, if that fails.
  bool Insert();
  // Gives the reference back.
  void Release();

  // The way to the peer's window, once it is inserted.
  const transport::RemoteWindow& window() const { return window_; }

  // Writes a stamped message of `length` bytes and waits until the peer has sent it back. False if
  // it does not come, or comes with other bytes.
  bool RoundTrip(uint32_t message, size_t length = kPeerBytes);

  // Lets the peer end in the regular way. Its exit status.
  int End();
  // Stops it as SIGSTOP does, but not in the middle of a poll: where processes share memory it may
  // hold a lock there, and who waits for that would wait for good. Waits until it stands.
  void StandStill();
  // Lets it stand still, SIGKILL, waits, and removes what it left in shared memory.
  void Kill();
  pid_t pid() const { return child_->pid(); }
  std::string log() { return child_->Errors(); }

 private:
  PeerProcess(transport::Node* node, transport::Way way, std::unique_ptr<ChildProcess> child)
      : node_(node), way_(way), child_(std::move(child)) {}

  transport::Node* node_;
  transport::Way way_;
  std::unique_ptr<ChildProcess> child_;
  std::string address_;
  transport::RemoteWindow window_;
  const transport::Peer* peer_ = nullptr;
  bool ended_ = false;  // and waited for
};

}  // namespace invoker::conformance

#endif  // INVOKER_TESTS_CONFORMANCE_PEER_PROCESS_H_
