// An opened card: its tables, its queue pairs and their connections, and the thread that does what
// the card would do while the process computes.

#ifndef INVOKER_TESTS_EFA_DEVICE_CARD_H_
#define INVOKER_TESTS_EFA_DEVICE_CARD_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tests/efa_device/address_handles.h"
#include "tests/efa_device/attributes.h"
#include "tests/efa_device/connection.h"
#include "tests/efa_device/faults.h"
#include "tests/efa_device/gid.h"
#include "tests/efa_device/memory_table.h"
#include "tests/efa_device/queue_pair.h"
#include "tests/efa_device/subnet.h"

namespace efa_device {

class Card : private Link {
 public:
  // A card in the subnet of INVOKER_EFA_DEVICE_DIR, of the generation of
  // INVOKER_EFA_DEVICE_GENERATION (default efa1), with the faults of INVOKER_EFA_DEVICE_FAULTS.
  // Null with errno set, and a line on the standard error, if one of them is wrong.
  static std::unique_ptr<Card> Open();
  // Waits a little until answers that it owes are sent.
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  const Attributes& attributes() const { return attributes_; }
  const Gid& gid() const { return gid_; }

  // Guards all below, and every queue pair.
  std::mutex& lock() { return lock_; }
  MemoryTable& memory() { return memory_; }
  AddressHandles& handles() { return handles_; }
  // Decisions that belong to the card and to no queue pair.
  Faults::Stream& faults() { return card_faults_; }
  // Fills in what only the card knows. Null, with errno set, if there can be no more.
  QueuePair* CreateQueuePair(QueuePair::Options options);
  void DestroyQueuePair(QueuePair* queue_pair);

  // After fork(), in the child: gives up all that belongs to the parent. Its queue pairs stay as
  // objects and do nothing. Needs lock().
  void Disown();
  // Removes the files of the queue pairs, if this process ends without destroying them.
  void RemoveFiles();

 private:
  using Token = uint64_t;  // what epoll knows a socket by
  struct Entry {
    std::unique_ptr<QueuePair> queue_pair;
    int listener = -1;
    Token listener_token = 0;
    std::map<Peer, Token> outgoing;
    uint64_t ordinal = 0;  // among the card's queue pairs
  };
  struct Retransmission {
    uint32_t qpn;
    uint64_t number;
  };

  Card(const Attributes& attributes, const Gid& gid, std::unique_ptr<Subnet> subnet,
       std::unique_ptr<Faults> faults);

  Status Transmit(QueuePair* from, const Peer& to, const Frame& frame) override;
  void RetransmitAfter(std::chrono::microseconds delay, QueuePair* from, uint64_t number) override;

  bool Start();
  void Run();
  // Each of these is one event of the thread.
  void Accept(uint32_t qpn);
  void Serve(const std::shared_ptr<Connection>& connection, Token token, uint32_t events);
  void RunTimers();

  // Adds a connection of the queue pair, by a non-blocking socket. `to` as Connection's.
  Token AddConnection(int socket, uint32_t qpn, Entry* entry, bool outgoing, const Peer& to);
  // Aborts the process if that is impossible.
  void Watch(int fd, Token token);
  // Has the thread send what a connection still holds, when it is time or the socket has room.
  void SendRest(Connection* connection, Token token);
  // Asks for an event when the socket has room, if something waits for that.
  void WatchRoom(Connection* connection, Token token);
  // Sets the timer to the earliest that waits.
  void SetTimer();
  void Drop(Token token);
  void Lose(Token token);

  const Attributes attributes_;
  const Gid gid_;
  const std::unique_ptr<Subnet> subnet_;
  const std::unique_ptr<Faults> faults_;
  Faults::Stream card_faults_;

  std::mutex lock_;
  MemoryTable memory_;
  AddressHandles handles_;
  std::map<uint32_t, Entry> queue_pairs_;
  std::map<Token, uint32_t> listeners_;  // the queue pair's number
  std::map<Token, std::shared_ptr<Connection>> connections_;
  std::multimap<std::chrono::steady_clock::time_point, Retransmission> retransmissions_;
  std::multimap<uint32_t, Peer> lost_;  // peers that a queue pair is to be told of
  uint64_t created_ = 0;                // queue pairs so far
  Token last_token_ = 0;

  int epoll_ = -1;
  int timer_ = -1;
  int stop_event_ = -1;
  bool stopping_ = false;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_CARD_H_
