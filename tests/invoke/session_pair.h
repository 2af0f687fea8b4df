// Both halves of one session, between two reactors of this process, driven turn by turn by the
// test's own thread: so a test decides what happens in which order. A third reactor may play an
// attacker who knows the session's window.

#ifndef INVOKER_TESTS_INVOKE_SESSION_PAIR_H_
#define INVOKER_TESTS_INVOKE_SESSION_PAIR_H_

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "src/invoke/executor/session/executor_session.h"
#include "src/invoke/session/client_session.h"
#include "src/transport/base/shared_files.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/reactor/reactor.h"
#include "tests/invoke/test_functions.h"
#include "tests/transport/immediates.h"

namespace invoker {

struct Way {
  const char* name;
  const char* provider;
  Notification notification;
  bool eager = false;  // whole messages inside the send, where they fit
};

inline const Way kWays[] = {
    {"TcpWriteImm", transport::WithImmediates("tcp;ofi_rxm"), Notification::kWriteImm},
    {"TcpSendAfterWrite", "tcp;ofi_rxm", Notification::kSendAfterWrite},
    {"ShmWriteImm", "shm", Notification::kWriteImm},
    {"ShmSendAfterWrite", "shm", Notification::kSendAfterWrite},
    {"TcpEager", "tcp;ofi_rxm", Notification::kSendAfterWrite, true},
    {"ShmEager", "shm", Notification::kSendAfterWrite, true},
};

inline std::string NameOfWay(const testing::TestParamInfo<Way>& info) { return info.param.name; }

inline absl::StatusOr<transport::FabricChoice> DiscoverLoopback(const std::string& provider) {
  transport::FabricRequest request;
  request.provider = provider;
  if (transport::FindRow(provider).address_is_ip) request.address = "127.0.0.1";
  return transport::Discover(request);
}

inline std::unique_ptr<transport::Reactor> OpenReactor(
    const std::string& provider, const transport::ReactorOptions& options = {}) {
  absl::StatusOr<transport::FabricChoice> choice = DiscoverLoopback(provider);
  if (!choice.ok()) {
    ADD_FAILURE() << choice.status();
    return nullptr;
  }
  auto reactor = transport::Reactor::Open(*std::move(choice), options);
  if (!reactor.ok()) {
    ADD_FAILURE() << reactor.status();
    return nullptr;
  }
  return *std::move(reactor);
}

// A reactor that writes what it likes into a window that it knows.
class Attacker final : public transport::ReactorHandler, public transport::OperationOwner {
 public:
  Attacker(const Way& way, const std::string& victim, const bootstrap::WindowDescriptor& window)
      : way_(way), reactor_(OpenReactor(way.provider)) {
    reactor_->set_handler(this);
    absl::StatusOr<transport::HostBuffer> buffer = transport::HostBuffer::Allocate(window.length);
    absl::StatusOr<transport::MemoryRegion> region =
        reactor_->Register(*std::move(buffer), transport::RegionUse::kSource);
    EXPECT_TRUE(region.ok()) << region.status();
    source_ = *std::move(region);
    absl::StatusOr<const transport::Peer*> peer = reactor_->peers().Insert(victim);
    EXPECT_TRUE(peer.ok()) << peer.status();
    peer_ = *peer;
    window_ = {peer_->address, window.base, window.length, window.key};
  }
  ~Attacker() override { reactor_->peers().Release(peer_); }

  void Write(uint64_t offset, absl::Span<const std::byte> bytes, uint64_t token) {
    memcpy(source_.data() + offset, bytes.data(), bytes.size());
    ASSERT_TRUE(reactor_->PostWrite(
        transport::GetNotifier(way_.notification, reactor_->profile().send_order), window_, offset,
        source_.data() + offset, source_.descriptor(), bytes.size(), token, this, 0));
  }

  void Poll() { reactor_->Poll(); }

  void OnToken(uint64_t) override {}
  void OnTick(int64_t) override {}
  void OnOperationFailed(const transport::Operation&, const absl::Status& status) override {
    ADD_FAILURE() << status;
  }

 private:
  Way way_;
  std::unique_ptr<transport::Reactor> reactor_;
  transport::MemoryRegion source_;
  const transport::Peer* peer_ = nullptr;
  transport::RemoteWindow window_;
};

class SessionPair final : public transport::ReactorHandler {
 public:
  struct Options {
    uint64_t window_bytes = 64 * 1024;
    uint64_t first_sequence = 1;
    uint32_t epoch = 7;
    uint16_t number = 3;
    DataAuth data_auth = DataAuth::kOff;
    transport::ReactorOptions client_reactor;
    transport::ReactorOptions executor_reactor;
  };

  SessionPair(const Way& way, const Options& options)
      : registry_(MakeTestFunctions(&functions)),
        way_(way),
        number_(options.number),
        client_reactor_(OpenReactor(way.provider, options.client_reactor)),
        executor_reactor_(OpenReactor(way.provider, options.executor_reactor)) {
    ClientSession::Options client_options;
    client_options.window_bytes = options.window_bytes;
    client_options.number = 9;
    client_options.first_sequence = options.first_sequence;
    auto client = ClientSession::Create(client_reactor_.get(), client_options);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    client_reactor_->set_handler(client_.get());
    executor_reactor_->set_handler(this);

    request_ = client_->MakeRequest(way.notification);
    if (!way.eager) request_.eager_bytes = 0;
    ExecutorSession::Parts parts;
    parts.reactor = executor_reactor_.get();
    parts.functions = &registry_;
    parts.watch = &watch_;
    parts.draining = &draining;
    parts.bulk_budget = bulk_budget;
    times.emplace(registry_.size());
    parts.times = &*times;
    parts.ring = &ring_;
    parts.number = options.number;
    parts.epoch = options.epoch;
    parts.first_sequence = request_.first_sequence;
    parts.notification = way.notification;
    if (options.data_auth != DataAuth::kOff) data_keys = *DrawDataKeys();
    parts.data_auth = options.data_auth;
    parts.data_keys = data_keys;
    parts.request_window = *transport::HostBuffer::Allocate(options.window_bytes);
    parts.response_staging = *transport::HostBuffer::Allocate(options.window_bytes);
    auto executor = ExecutorSession::Open(std::move(parts), request_);
    EXPECT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);

    bootstrap::OpenSessionReply reply;
    reply.endpoint_address = executor_reactor_->address();
    reply.request_window = executor_->request_window();
    reply.request_session = options.number;
    reply.epoch = options.epoch;
    reply.notification = way.notification;
    reply.data_auth = options.data_auth;
    reply.data_keys = data_keys;
    reply.eager_bytes = way.eager ? executor_reactor_->eager_bytes() : 0;
    const absl::Status attached = client_->Attach(reply);
    EXPECT_TRUE(attached.ok()) << attached;
  }

  // One turn of the executor.
  void PollExecutor() {
    turn_began_ns_ = 0;
    executor_reactor_->Poll();
    if (executor_ != nullptr) executor_->Continue();
  }
  // One turn of the client.
  void PollClient() {
    client_reactor_->Poll();
    client_->Flush();
  }

  // Polls both sides, and `also`, until `done`. False if that took longer than any healthy run
  // does.
  bool Until(const std::function<bool()>& done, Attacker* also = nullptr) {
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    while (!done()) {
      PollClient();
      PollExecutor();
      if (also != nullptr) also->Poll();
      if (transport::MonotonicNs() > give_up) return false;
    }
    return true;
  }
  bool UntilEnded(const Call* call) {
    return Until([call] { return call->ended(); });
  }

  // Has the client wait until it shows that it sleeps (ReactorOptions::shows_sleep).
  bool PutClientToSleep() {
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    while (!ClientShowsSleep() && transport::MonotonicNs() < give_up) {
      client_reactor_->Wait(absl::Milliseconds(1));
    }
    return ClientShowsSleep();
  }
  // What peers see of it, from which they wake it.
  bool ClientShowsSleep() const {
    const std::string word = absl::StrCat(transport::SharedFilePath(client_reactor_->address()),
                                          transport::kSleepWordSuffix);
    uint32_t asleep = 0;
    const int fd = open(word.c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_GE(fd, 0) << word;
    EXPECT_EQ(pread(fd, &asleep, sizeof(asleep), 0), static_cast<ssize_t>(sizeof(asleep)));
    close(fd);
    return asleep != 0;
  }

  // Queues an echo of `text`.
  Call* StartEcho(absl::string_view text, uint32_t response_capacity, uint16_t function = kEcho,
                  int64_t deadline_ns = 0) {
    ClientSession::Request request;
    request.function_id = function;
    request.input = {reinterpret_cast<const std::byte*>(text.data()), text.size()};
    request.response_capacity = response_capacity;
    request.deadline_ns = deadline_ns;
    return client_->Start(request);
  }
  // Queues a probe with `text`.
  Call* StartProbe(absl::string_view text, uint32_t room = 0) {
    ClientSession::Request request;
    request.kind = MessageKind::kProbe;
    request.input = {reinterpret_cast<const std::byte*>(text.data()), text.size()};
    request.response_capacity = std::max(room, static_cast<uint32_t>(text.size()));
    return client_->Start(request);
  }
  std::string Text(const Call& call) const {
    const Bytes payload = client_->Payload(call);
    return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
  }

  // A whole echo; the failure of the test if it does not come back the same.
  void CheckEcho(const std::string& text) {
    Call* call = StartEcho(text, static_cast<uint32_t>(text.size()));
    ASSERT_NE(call, nullptr);
    client_->Flush();
    ASSERT_TRUE(UntilEnded(call));
    ASSERT_TRUE(call->status.ok()) << call->status;
    EXPECT_EQ(Text(*call), text);
    client_->Finish(call, false);
  }

  bool AllFree() const {
    return client_->free_request_cells() == client_->geometry().cells() &&
           client_->free_response_cells() == client_->geometry().cells();
  }

  std::unique_ptr<Attacker> AttackExecutor() {
    return std::make_unique<Attacker>(way_, executor_reactor_->address(),
                                      executor_->request_window());
  }
  std::unique_ptr<Attacker> AttackClient() {
    return std::make_unique<Attacker>(way_, client_reactor_->address(), request_.response_window);
  }

  void OnToken(uint64_t token) override {
    ++tokens;
    const auto upper = static_cast<uint32_t>(token >> 32);
    const std::optional<Immediate> immediate = Immediate::Decode(static_cast<uint32_t>(token));
    if (!immediate.has_value() || immediate->session != number_ ||
        immediate->kind == MessageKind::kResponse || executor_ == nullptr) {
      return;
    }
    if (upper != 0 && !executor_->RestoreSequence(immediate->cell, upper)) return;
    if (turn_began_ns_ == 0 && !alone) turn_began_ns_ = transport::MonotonicNs();
    Ring(immediate->kind, immediate->cell, turn_began_ns_);
  }
  // All of the write runs.
  void Ring(MessageKind kind, uint32_t cell, int64_t turn_began_ns) {
    executor_->BeginQuantum();
    executor_->OnDoorbell(kind, cell, turn_began_ns);
    while (!ring_.empty()) ring_.TakeFirst()->Serve();
  }
  void OnTick(int64_t) override {}

  ClientSession& client() { return *client_; }
  ExecutorSession& executor() { return *executor_; }
  // The worker ends the session; the client does not know.
  void EndExecutor() { executor_.reset(); }
  transport::Reactor& client_reactor() { return *client_reactor_; }
  transport::Reactor& executor_reactor() { return *executor_reactor_; }
  const WindowGeometry& geometry() const { return client_->geometry(); }
  uint16_t number() const { return number_; }

  TestFunctions functions;
  std::atomic<bool> draining{false};
  const std::shared_ptr<BulkBudget> bulk_budget = std::make_shared<BulkBudget>();
  std::optional<FunctionTimes> times;
  uint64_t tokens = 0;  // that the executor got
  bool alone = false;   // each comes in a turn of its own, for which nobody looks at the clock
  DataKeys data_keys;   // the session's tags', if it has any

 private:
  FunctionRegistry registry_;
  ExecutorWatch watch_;
  Way way_;
  uint16_t number_;
  std::unique_ptr<transport::Reactor> client_reactor_;
  std::unique_ptr<transport::Reactor> executor_reactor_;
  bootstrap::OpenSessionRequest request_;
  int64_t turn_began_ns_ = 0;
  TurnRing<ExecutorSession> ring_;
  std::unique_ptr<ExecutorSession> executor_;
  std::unique_ptr<ClientSession> client_;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_INVOKE_SESSION_PAIR_H_
