// Both halves of one session, over the fabric of fabric/network.h, and a record of every call: what
// was asked for, how often it ran, what came back. One thread; one world at a time.

#ifndef INVOKER_TESTS_FUZZ_SESSION_WORLD_H_
#define INVOKER_TESTS_FUZZ_SESSION_WORLD_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/invoke/executor/session/executor_session.h"
#include "src/invoke/session/client_session.h"
#include "src/transport/reactor/reactor.h"
#include "tests/fuzz/fabric/network.h"

namespace invoker::fuzz {

class SessionWorld final : public transport::ReactorHandler {
 public:
  // What calls ask for. Ids from kFunctions on are of none.
  enum Function : uint16_t { kTurnRound = 0, kFail = 1, kTooLarge = 2, kFunctions = 3 };

  struct Sent {
    Call* call = nullptr;  // nullptr once it has been given back
    MessageKind kind = MessageKind::kRequest;
    uint16_t function = 0;
    std::string input;  // begins with this record's number
    uint32_t capacity = 0;
    uint32_t executed = 0;
    bool judged = false;  // its end has been looked at
    bool must_not_run = false;
  };

  struct Buffer {
    HeldCells cells;
    uint32_t bytes = 0;
    std::unique_ptr<bool> busy;
  };

  // `in_order`: the fabric injects a little, and keeps writes in their order.
  SessionWorld(Notification notification, bool eager, uint32_t slots, DataAuth data_auth,
               bool in_order = false);
  ~SessionWorld() override;

  ClientSession& client() { return *client_; }
  // nullptr once it has ended.
  ExecutorSession* executor() { return executor_.get(); }
  std::deque<Sent>& sent() { return sent_; }
  std::vector<Buffer>& buffers() { return buffers_; }
  std::vector<HeldCells>& kept() { return kept_; }
  const bootstrap::OpenSessionRequest& request() const { return request_; }
  uint32_t client_endpoint() const { return 1; }
  uint32_t executor_endpoint() const { return 0; }
  static constexpr uint16_t kNumber = 3;
  static constexpr uint16_t kClientNumber = 9;

  // Somebody who has the keys writes what he likes: from here on only what holds then is checked.
  void set_hostile() { hostile_ = true; }
  // Somebody rings who has written nothing.
  void set_forged() { forged_ = true; }
  // A write has been placed in part. Together with the former, the doorbell of a write may come too
  // late for all but its first message (docs/design/security.md), so that not every call ends.
  void set_torn() { torn_ = true; }

  // Starts a call of `bytes` of input at least; in a buffer if one is named. False: no room.
  bool Start(MessageKind kind, uint16_t function, uint32_t bytes, uint32_t capacity,
             int64_t deadline_ns, Buffer* buffer);
  void Finish(Sent* sent, bool keep_response);
  void Abandon(Sent* sent);

  void PollClient();
  void PollExecutor();
  // Deadlines up to that time have passed.
  void Tick(int64_t now_ns);
  void EndExecutor() { executor_.reset(); }

  // Lets everything that is under way arrive and checks that every call ends, and that all that was
  // taken is free.
  void Drain();

  std::atomic<bool> draining{false};

  void OnToken(uint64_t token) override;
  void OnTick(int64_t) override {}
  // A function runs.
  int64_t Run(uint16_t function, invoker_call* call);

 private:
  void JudgeAll();
  void Judge(Sent* sent);
  bool Quiet() const;

  std::deque<Sent> sent_;
  std::vector<Buffer> buffers_;
  std::vector<HeldCells> kept_;
  bool hostile_ = false;
  bool forged_ = false;
  bool torn_ = false;
  FunctionRegistry registry_;
  ExecutorWatch watch_;
  std::optional<FunctionTimes> times_;
  std::unique_ptr<transport::Reactor> executor_reactor_;
  std::unique_ptr<transport::Reactor> client_reactor_;
  bootstrap::OpenSessionRequest request_;
  TurnRing<ExecutorSession> ring_;
  std::unique_ptr<ExecutorSession> executor_;
  std::unique_ptr<ClientSession> client_;
};

}  // namespace invoker::fuzz

#endif  // INVOKER_TESTS_FUZZ_SESSION_WORLD_H_
