// An endpoint of the real EFA provider, and another in a process of its own, for tests that run on
// the emulated card.

#ifndef INVOKER_TESTS_EFA_DEVICE_PROVIDER_PEER_H_
#define INVOKER_TESTS_EFA_DEVICE_PROVIDER_PEER_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace efa_device {

// How an operation ended.
struct Outcome {
  int error = 0;       // libfabric's, positive; -1 if it has not ended in time
  int prov_error = 0;  // the card's status, or the provider's own
};

// One endpoint with a completion queue, an address vector and 8 MiB of registered memory. Any
// failure to set it up, or to post, ends the process with a message.
class Endpoint {
 public:
  static constexpr size_t kMemory = 8 << 20;

  Endpoint();
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  std::string name() const;
  uint64_t key() const;
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.data()); }
  uint8_t* memory() { return memory_.data(); }
  fi_addr_t Insert(const std::string& name);

  // Each posts one operation on a part of the memory and waits until it has ended. A write has then
  // been placed: by default it need not be, and a read by the card would overtake it.
  Outcome Send(fi_addr_t to, size_t offset, size_t length);
  Outcome Write(fi_addr_t to, size_t offset, size_t length, uint64_t address, uint64_t key);
  Outcome Read(fi_addr_t from, size_t offset, size_t length, uint64_t address, uint64_t key);

  // These only post.
  void PostReceive(size_t offset, size_t length);
  void PostSend(fi_addr_t to, size_t offset, size_t length);
  // Waits until so many posted operations have ended. The first failure is the outcome.
  Outcome WaitFor(size_t count);

  // Makes progress for the peers' sake, and takes completions.
  void Poll();
  // Sends the next message that arrives back to `to`. Then the one after that, and so on, one at a
  // time. Call it again and again. Uses the last mebibyte of the memory.
  void Echo(fi_addr_t to);

 private:
  template <typename Post>
  void Until(const char* name, const Post& post);

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fid_mr* region_ = nullptr;
  std::vector<uint8_t> memory_;
  size_t ended_ = 0;
  Outcome failure_;
  size_t last_length_ = 0;  // a received message's
  enum class EchoState { kIdle, kReceiving, kSending } echo_ = EchoState::kIdle;
};

// A process with an Endpoint that sends back every message, and leaves its memory to others. At
// first that is filled from the seed 1.
class PeerProcess {
 public:
  // `other` is where it sends messages back to. `own_network` puts it in a network namespace of its
  // own: another host.
  explicit PeerProcess(const Endpoint& other, bool own_network = false);
  // Ends it in order, unless it was killed.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const std::string& name() const { return name_; }
  uint64_t address() const { return address_; }
  uint64_t key() const { return key_; }
  void Kill();

  // Runs the peer and returns true if the arguments ask for one. main() calls it first.
  static bool Run(int argc, char** argv);

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string name_;
  uint64_t address_ = 0;
  uint64_t key_ = 0;
};

// Bytes that depend on the seed.
void Fill(uint8_t* bytes, size_t length, uint64_t seed);
bool IsFilled(const uint8_t* bytes, size_t length, uint64_t seed);

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_PROVIDER_PEER_H_
