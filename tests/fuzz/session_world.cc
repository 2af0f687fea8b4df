#include "tests/fuzz/session_world.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "invoker/call_fate.h"
#include "src/transport/discovery/discovery.h"
#include "tests/fuzz/check.h"

namespace invoker::fuzz {
namespace {

constexpr uint64_t kWindowBytes = 4096;

template <uint16_t kFunction>
int64_t RunFunction(invoker_call* call) {
  return static_cast<SessionWorld*>(call->context)->Run(kFunction, call);
}

FunctionRegistry MakeFunctions(SessionWorld* world) {
  FunctionRegistry registry;
  const auto add = [&](const char* name, invoker_function function) {
    FunctionEntry entry;
    entry.name = name;
    entry.function = function;
    entry.context = world;
    FUZZ_CHECK(registry.Add(entry).ok());
  };
  add("turn_round", RunFunction<SessionWorld::kTurnRound>);
  add("fail", RunFunction<SessionWorld::kFail>);
  add("too_large", RunFunction<SessionWorld::kTooLarge>);
  return registry;
}

std::unique_ptr<transport::Reactor> OpenReactor(uint32_t slots, bool in_order) {
  static const transport::FabricChoice* const found = [] {
    transport::FabricRequest request;
    request.provider = "tcp;ofi_rxm";
    request.address = "127.0.0.1";
    absl::StatusOr<transport::FabricChoice> choice = transport::Discover(request);
    FUZZ_CHECK(choice.ok());
    return new transport::FabricChoice(*std::move(choice));
  }();
  absl::StatusOr<transport::FabricChoice> choice = transport::CopyOf(*found);
  FUZZ_CHECK(choice.ok());
  // What the fabric at hand promises: nothing of order, and no word about when a write is placed.
  // Or else what pieces and messages without headers need.
  choice->profile.wait = transport::WaitMethod::kBackoff;
  choice->profile.send_order = transport::SendOrder::kAfterDelivery;
  choice->profile.may_send_pieces = in_order;
  choice->profile.injected_is_placed = in_order;
  if (in_order) choice->profile.inject_bytes = 128;
  choice->profile.close_needs_quiet = false;
  choice->profile.may_have_atomics = false;
  choice->profile.receive_buffers = 8;
  transport::ReactorOptions options;
  options.operations = slots;
  options.inbound = 16;
  options.quarantine_after = absl::Hours(1);
  auto reactor = transport::Reactor::Open(*std::move(choice), options);
  FUZZ_CHECK(reactor.ok());
  return *std::move(reactor);
}

// What kTurnRound makes of its input.
void TurnRound(const uint8_t* from, size_t size, uint8_t* to) {
  for (size_t i = 0; i < size; ++i) to[i] = static_cast<uint8_t>(from[i] ^ 0x5a);
}

}  // namespace

SessionWorld::SessionWorld(Notification notification, bool eager, uint32_t slots,
                           DataAuth data_auth, bool in_order)
    : registry_(MakeFunctions(this)),
      executor_reactor_(OpenReactor(slots, in_order)),
      client_reactor_(OpenReactor(slots, in_order)) {
  Network::Get().KeepOrder(in_order);
  ClientSession::Options options;
  options.window_bytes = kWindowBytes;
  options.number = kClientNumber;
  options.first_sequence = ~uint64_t{0} - 2;
  auto client = ClientSession::Create(client_reactor_.get(), options);
  FUZZ_CHECK(client.ok());
  client_ = *std::move(client);
  client_reactor_->set_handler(client_.get());
  executor_reactor_->set_handler(this);
  request_ = client_->MakeRequest(notification);
  if (!eager) request_.eager_bytes = 0;

  ExecutorSession::Parts parts;
  parts.reactor = executor_reactor_.get();
  parts.functions = &registry_;
  parts.watch = &watch_;
  parts.draining = &draining;
  parts.bulk_budget = std::make_shared<BulkBudget>(1 << 20);
  parts.store = std::make_shared<DataStore>(parts.bulk_budget);
  times_.emplace(registry_.size());
  parts.times = &*times_;
  parts.ring = &ring_;
  parts.number = kNumber;
  parts.epoch = 7;
  parts.first_sequence = request_.first_sequence;
  parts.notification = notification;
  const DataKeys data_keys = data_auth == DataAuth::kOff ? DataKeys() : *DrawDataKeys();
  parts.data_auth = data_auth;
  parts.data_keys = data_keys;
  parts.request_window = *transport::HostBuffer::Allocate(kWindowBytes);
  parts.response_staging = *transport::HostBuffer::Allocate(kWindowBytes);
  auto executor = ExecutorSession::Open(std::move(parts), request_);
  FUZZ_CHECK(executor.ok());
  executor_ = *std::move(executor);

  bootstrap::OpenSessionReply reply;
  reply.endpoint_address = executor_reactor_->address();
  reply.request_window = executor_->request_window();
  reply.request_session = kNumber;
  reply.epoch = 7;
  reply.notification = notification;
  reply.data_auth = data_auth;
  reply.data_keys = data_keys;
  reply.eager_bytes = eager ? executor_reactor_->eager_bytes() : 0;
  FUZZ_CHECK(client_->Attach(reply).ok());
}

SessionWorld::~SessionWorld() {
  client_.reset();
  executor_.reset();
  Network::Get().Clear();
}

int64_t SessionWorld::Run(uint16_t function, invoker_call* call) {
  uint64_t number = ~uint64_t{0};
  memcpy(&number, call->input, std::min<size_t>(sizeof(number), call->input_size));
  if (!hostile_) {
    FUZZ_CHECK(number < sent_.size());
    Sent& sent = sent_[number];
    ++sent.executed;
    FUZZ_CHECK(sent.executed == 1);
    FUZZ_CHECK(sent.function == function && sent.kind == MessageKind::kRequest);
    FUZZ_CHECK(call->output_capacity == sent.capacity);
    FUZZ_CHECK(call->input_size == sent.input.size() &&
               memcmp(call->input, sent.input.data(), sent.input.size()) == 0);
    FUZZ_CHECK(!sent.must_not_run);
  }
  if (function == kFail) {
    strncpy(call->error, "it did not work", call->error_capacity - 1);
    return -5;
  }
  if (function == kTooLarge || call->input_size > call->output_capacity) {
    call->output_needed = uint64_t{call->output_capacity} + 1;
    return INVOKER_OUTPUT_TOO_SMALL;
  }
  TurnRound(static_cast<const uint8_t*>(call->input), call->input_size,
            static_cast<uint8_t*>(call->output));
  return static_cast<int64_t>(call->input_size);
}

void SessionWorld::OnToken(uint64_t token) {
  const auto upper = static_cast<uint32_t>(token >> 32);
  const std::optional<Immediate> immediate = Immediate::Decode(static_cast<uint32_t>(token));
  if (!immediate.has_value() || immediate->session != kNumber ||
      immediate->kind == MessageKind::kResponse || executor_ == nullptr) {
    return;
  }
  if (upper != 0 && !executor_->RestoreSequence(immediate->cell, upper)) return;
  executor_->BeginQuantum();
  executor_->OnDoorbell(immediate->kind, immediate->cell, 0);
  while (!ring_.empty()) ring_.TakeFirst()->Serve();
}

bool SessionWorld::Start(MessageKind kind, uint16_t function, uint32_t bytes, uint32_t capacity,
                         int64_t deadline_ns, Buffer* buffer) {
  // CallDriver does so before it starts a call.
  if (!client_->failure().ok()) return false;
  Sent sent;
  const uint64_t number = sent_.size();
  sent.kind = kind;
  sent.function = function;
  sent.capacity = capacity;
  sent.input.resize(std::max<size_t>(bytes, sizeof(number)));
  memcpy(sent.input.data(), &number, sizeof(number));
  for (size_t i = sizeof(number); i < sent.input.size(); ++i) {
    sent.input[i] = static_cast<char>(number * 31 + i);
  }
  const uint64_t most = client_->geometry().MaxPayload();
  if (sent.input.size() > most || capacity > most) return false;
  ClientSession::Request request;
  request.kind = kind;
  request.function_id = function;
  request.response_capacity = capacity;
  request.deadline_ns = deadline_ns;
  if (buffer != nullptr) {
    if (*buffer->busy || sent.input.size() > buffer->bytes) return false;
    std::byte* payload = client_->RequestPayload(buffer->cells);
    memcpy(payload, sent.input.data(), sent.input.size());
    request.input = {payload, sent.input.size()};
    request.cells = buffer->cells;
    request.buffer_busy = buffer->busy.get();
  } else {
    request.input = {reinterpret_cast<const std::byte*>(sent.input.data()), sent.input.size()};
  }
  sent.call = client_->Start(request);
  if (sent.call == nullptr) return false;
  FUZZ_CHECK(sent.call->state == Call::State::kOutstanding);
  sent_.push_back(std::move(sent));
  return true;
}

void SessionWorld::Judge(Sent* sent) {
  if (sent->call == nullptr || sent->judged || !sent->call->ended()) return;
  sent->judged = true;
  if (hostile_) return;
  const absl::Status& status = sent->call->status;
  if (status.ok()) {
    const Bytes payload = client_->Payload(*sent->call);
    std::string expected = sent->input;
    if (sent->kind == MessageKind::kProbe) {
      expected.resize(std::min<size_t>(expected.size(), sent->capacity));
    } else {
      FUZZ_CHECK(sent->function == kTurnRound && sent->executed == 1);
      TurnRound(reinterpret_cast<const uint8_t*>(sent->input.data()), sent->input.size(),
                reinterpret_cast<uint8_t*>(expected.data()));
    }
    FUZZ_CHECK(payload.size() == expected.size() &&
               memcmp(payload.data(), expected.data(), expected.size()) == 0);
    return;
  }
  // By the executor's clock, which is the real one, every deadline is hours away.
  FUZZ_CHECK(!(absl::IsDeadlineExceeded(status) && GetCallFate(status) == CallFate::kNotExecuted));
  switch (GetCallFate(status)) {
    case CallFate::kNotSent:
    case CallFate::kNotExecuted:
      FUZZ_CHECK(sent->executed == 0);
      sent->must_not_run = true;
      break;
    case CallFate::kExecuted:
      FUZZ_CHECK(sent->executed == 1);
      break;
    case CallFate::kMaybeExecuted:
      break;
    case CallFate::kUnknown:
      FUZZ_CHECK(false);
  }
}

void SessionWorld::JudgeAll() {
  for (Sent& sent : sent_) Judge(&sent);
}

void SessionWorld::Finish(Sent* sent, bool keep_response) {
  Judge(sent);
  const bool keep = keep_response && sent->call->status.ok() && sent->call->response.cells != 0 &&
                    sent->call->state == Call::State::kDone;
  if (keep) kept_.push_back(sent->call->response);
  client_->Finish(sent->call, keep);
  sent->call = nullptr;
}

void SessionWorld::Abandon(Sent* sent) {
  Judge(sent);
  client_->Retire(sent->call);
  sent->call = nullptr;
}

void SessionWorld::PollClient() {
  client_reactor_->Poll();
  client_->Flush();
  JudgeAll();
}

void SessionWorld::PollExecutor() {
  executor_reactor_->Poll();
  if (executor_ == nullptr) return;
  executor_->Continue();
  // ExecutorEndpoint does so.
  if (!executor_->failure().ok()) EndExecutor();
}

void SessionWorld::Tick(int64_t now_ns) {
  client_->OnTick(now_ns);
  JudgeAll();
}

bool SessionWorld::Quiet() const {
  if (!Network::Get().flights().empty()) return false;
  const bool lives = client_->failure().ok() && executor_ != nullptr;
  return !lives || (client_->answered() && !client_->requests().pending());
}

void SessionWorld::Drain() {
  Network& network = Network::Get();
  network.RefusePosts(0);
  // A refused post is tried again only now and then. What junk has overwritten is never answered.
  const int most_turns = hostile_ || (forged_ && torn_) ? 200 : 4000;
  for (int turn = 0; turn < most_turns; ++turn) {
    for (size_t i = 0; i < network.flights().size(); ++i) network.Finish(&network.flights()[i]);
    network.Sweep();
    PollExecutor();
    PollClient();
    client_->OnTick(0);  // what failed posts lead to
    if (Quiet()) break;
  }
  const bool all_end = !(forged_ && torn_);
  const bool lived = client_->failure().ok() && executor_ != nullptr;
  if (lived && !hostile_ && all_end) {
    FUZZ_CHECK(client_->outstanding() == 0);
    FUZZ_CHECK(client_->answered());
    if (!forged_) {
      // A request may make no sense and be honest: it is answered as refused.
      const DropCounters& dropped = executor_->counters().dropped;
      FUZZ_CHECK(TotalDrops(dropped) ==
                 dropped.unknown_function + dropped.invalid_request + dropped.too_many_calls);
      FUZZ_CHECK(TotalDrops(client_->dropped()) == 0);
    }
  } else {
    client_->Fail(absl::UnavailableError("the worker has gone"));
  }
  uint64_t executed = 0;
  JudgeAll();
  for (Sent& sent : sent_) {
    executed += sent.executed;
    if (sent.call == nullptr) continue;
    FUZZ_CHECK(sent.call->ended());
    Finish(&sent, false);
  }
  for (const HeldCells& cells : kept_) client_->FreeResponseCells(cells);
  for (Buffer& buffer : buffers_) {
    if (buffer.cells.cells != 0) client_->ReleaseBuffer(buffer.cells, buffer.busy.get());
  }
  // Every run of cells that was given back had been taken.
  FUZZ_CHECK(client_->bad_frees() == 0);
  if (!lived || hostile_ || !all_end) return;
  FUZZ_CHECK(executor_->counters().executed == executed);
  FUZZ_CHECK(client_->free_request_cells() == client_->geometry().cells());
  FUZZ_CHECK(client_->free_response_cells() == client_->geometry().cells());
}

}  // namespace invoker::fuzz
