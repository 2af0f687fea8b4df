// An endpoint that asks others whether they still answer a peer that they do not know.
//
// A provider's listener, or the thread behind it, can stop without a word: connections that stand
// may go on, and every new one fails. Only a new peer can see that, so each such endpoint is opened
// for one round of checks and closed after it. The target's reactor says what has arrived
// (Reactor::ExpectCheck).
//
// One thread.

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_CHECKING_ENDPOINT_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_CHECKING_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::transport {

class CheckingEndpoint final : public ReactorHandler, public OperationOwner {
 public:
  // Blocks for as long as opening an endpoint takes: milliseconds. Errors are Reactor::Open's.
  static absl::StatusOr<std::unique_ptr<CheckingEndpoint>> Open(FabricChoice choice);
  // Blocks for some milliseconds on fabrics whose endpoints must be quiet to be closed.
  ~CheckingEndpoint() override;

  // Sends a check with this nonce, which is not 0, to the endpoint at `address`; Poll goes on with
  // it. What fails is sent again, since a connection may be refused only for now.
  absl::Status Send(const std::string& address, uint64_t nonce);

  // One turn, and then a sleep of `limit` at most.
  void Poll(absl::Duration limit);

  // Why the last check could not be sent, or OK.
  const absl::Status& failure() const { return failure_; }

  void OnToken(uint64_t) override {}
  void OnTick(int64_t) override {}
  void OnOperationFailed(const Operation& operation, const absl::Status& status) override;

 private:
  explicit CheckingEndpoint(std::unique_ptr<Reactor> reactor);

  void Post();

  std::unique_ptr<Reactor> reactor_;
  const Peer* peer_ = nullptr;
  uint64_t nonce_ = 0;
  bool to_post_ = false;
  int64_t next_post_ns_ = 0;
  absl::Status failure_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_CHECKING_ENDPOINT_H_
