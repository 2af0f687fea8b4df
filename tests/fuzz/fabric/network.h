// A fabric of this process whose user decides what happens: which write is placed when, in which
// order peers and senders hear of it, which one fails and which post is refused.
//
// It stands in front of libfabric: fi_getinfo is libfabric's own, but what a program then opens is
// of this library. One thread.

#ifndef INVOKER_TESTS_FUZZ_FABRIC_NETWORK_H_
#define INVOKER_TESTS_FUZZ_FABRIC_NETWORK_H_

#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace invoker::fuzz {

struct Endpoint;

// A write or a send on its way.
struct Flight {
  Endpoint* from = nullptr;  // nullptr: its endpoint has closed
  uint32_t to = 0;           // endpoint's number
  bool is_send = false;
  const void* source = nullptr;  // read when it is placed, unless `copied`
  size_t bytes = 0;
  std::vector<std::byte> copied;
  uint64_t address = 0;
  uint64_t key = 0;
  bool has_data = false;
  uint64_t data = 0;
  void* context = nullptr;
  uint64_t flags = 0;           // the sender's completion's
  bool wants_delivery = false;  // its completion may not come before it has been placed
  bool completes = false;
  // How far it has come.
  bool placed = false;
  bool announced = false;
  bool completed = false;
  bool over() const { return placed && announced && completed; }
};

class Network {
 public:
  static Network& Get();

  // In the order of their posts. What is over leaves the list with the next Sweep.
  std::deque<Flight>& flights() { return flights_; }
  void Sweep();

  // Each does nothing if it is not possible now. Placing to memory that is not registered any more,
  // or to an endpoint that has closed, fails the operation.
  void Place(Flight* flight);
  // Places the bytes [first, first + count) of a write, as far as it has them: the write is still
  // to be placed.
  void PlacePart(const Flight& flight, size_t first, size_t count);
  // Tells the peer, of what has been placed.
  void Announce(Flight* flight);
  // Tells the sender.
  void Complete(Flight* flight);
  // The operation fails, before or after it has been placed.
  void Fail(Flight* flight);
  // All three.
  void Finish(Flight* flight);

  // From now on an endpoint's writes are placed, and announced, in the order of their posts, or
  // not.
  void KeepOrder(bool keep) { keeps_order_ = keep; }

  // An immediate that an endpoint hears of, from anywhere.
  void Ring(uint32_t endpoint, uint64_t data);

  // So many posts to come are refused with -FI_EAGAIN.
  void RefusePosts(uint32_t count) { refused_ = count; }
  bool TakeRefusal() {
    if (refused_ == 0) return false;
    --refused_;
    return true;
  }

  void Post(Flight flight) { flights_.push_back(std::move(flight)); }
  // Forgets an endpoint that closes.
  void Forget(const Endpoint* endpoint);
  void Clear();

 private:
  // Whether an earlier write of the same endpoint's still has to be placed, or announced.
  bool IsBehind(const Flight& flight, bool Flight::*done) const;

  std::deque<Flight> flights_;
  bool keeps_order_ = false;
  uint32_t refused_ = 0;
};

}  // namespace invoker::fuzz

#endif  // INVOKER_TESTS_FUZZ_FABRIC_NETWORK_H_
