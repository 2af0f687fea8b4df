#include "tests/faults/faulty_world.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/invoke/leasing_host.h"

namespace invoker::faults {
namespace {

uint64_t NumberIn(absl::string_view input) {
  uint64_t number = UINT64_MAX;
  if (input.size() >= sizeof(number)) memcpy(&number, input.data(), sizeof(number));
  return number;
}

// The call's number, and every other byte changed by one of its own: an answer to another call, or
// with another's bytes in it, is not taken for it.
int64_t Count(invoker_call* call) {
  const absl::string_view input(static_cast<const char*>(call->input), call->input_size);
  const uint64_t number = NumberIn(input);
  static_cast<CallBook*>(call->context)->Ran(number);
  if (input.size() > call->output_capacity) {
    call->output_needed = input.size();
    return INVOKER_OUTPUT_TOO_SMALL;
  }
  char* const output = static_cast<char*>(call->output);
  memcpy(output, input.data(), input.size());
  for (size_t i = sizeof(number); i < input.size(); ++i) {
    output[i] = static_cast<char>(output[i] ^ static_cast<char>(number));
  }
  return static_cast<int64_t>(input.size());
}

}  // namespace

void CallBook::End(uint64_t call, const absl::Status& status) {
  ++ended_;
  Told told = Told::kNothing;
  if (status.ok()) {
    ++ended_well_;
    told = Told::kExecuted;
  } else {
    switch (GetCallFate(status)) {
      case CallFate::kExecuted:
        told = Told::kExecuted;
        break;
      case CallFate::kNotSent:
      case CallFate::kNotExecuted:
        told = Told::kNotExecuted;
        break;
      case CallFate::kMaybeExecuted:
        told = Told::kMaybeExecuted;
        break;
      case CallFate::kUnknown:
        Violation(absl::StrCat("call ", call, " ended without a fate: ", status.ToString()));
        return;
    }
  }
  if (call >= told_.size()) return Violation("the book is too small");
  if (told_[call].exchange(told) != Told::kNothing) {
    Violation(absl::StrCat("call ", call, " ended twice"));
  }
}

void CallBook::Violation(const std::string& what) {
  absl::MutexLock lock(&mutex_);
  violations_.push_back(what);
}

std::vector<std::string> CallBook::Close() {
  for (size_t call = 0; call < made(); ++call) {
    const uint32_t runs = runs_[call];
    const Told told = told_[call];
    if (told == Told::kNothing) Violation(absl::StrCat("call ", call, " never ended"));
    if (runs > 1 + retries_[call]) {
      Violation(absl::StrCat("call ", call, " was executed ", runs, " times"));
    }
    if (runs > 0 && told == Told::kNotExecuted) {
      Violation(absl::StrCat("call ", call, " was executed, and its caller told that it was not"));
    }
    if (runs == 0 && told == Told::kExecuted) {
      Violation(absl::StrCat("call ", call, " was not executed, and its caller told that it was"));
    }
  }
  absl::MutexLock lock(&mutex_);
  return violations_;
}

std::string AnswerTo(absl::string_view input) {
  std::string answer(input);
  const uint64_t number = NumberIn(input);
  for (size_t i = sizeof(number); i < answer.size(); ++i) {
    answer[i] = static_cast<char>(answer[i] ^ static_cast<char>(number));
  }
  return answer;
}

FaultyWorld::FaultyWorld(const std::string& provider, CallBook* book) : provider_(provider) {
  FunctionRegistry registry;
  FunctionEntry entry;
  entry.name = "count";
  entry.function = &Count;
  entry.context = book;
  registry.Add(entry).IgnoreError();
  WorkerOptions options;
  options.providers = {provider};
  options.addresses.preferred_ip = "127.0.0.1";
  options.window_bytes = kWindowBytes;
  options.executor.hot_timeout = absl::Microseconds(100);
  absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(options, std::move(registry));
  if (!worker.ok()) {
    book->Violation(absl::StrCat("no worker: ", worker.status().ToString()));
    return;
  }
  worker_ = *std::move(worker);
  host_ = std::make_unique<LeasingHost>(worker_.get());
  bootstrap::ServerOptions server_options;
  server_options.listen = "127.0.0.1:0";
  absl::StatusOr<std::unique_ptr<bootstrap::Server>> server =
      bootstrap::Server::Start(server_options, host_.get());
  if (!server.ok()) {
    book->Violation(absl::StrCat("no server: ", server.status().ToString()));
    return;
  }
  server_ = *std::move(server);
  worker_->set_on_session_closed(
      [raw = server_.get()](uint64_t lease, uint64_t handle, absl::string_view reason) {
        raw->NotifySessionClosed(lease, handle, reason);
      });
}

FaultyWorld::~FaultyWorld() { Stop(); }

void FaultyWorld::Stop() {
  if (server_ != nullptr) server_->Stop();
  if (worker_ != nullptr) worker_->Stop(absl::Seconds(1));
  server_.reset();
  host_.reset();
  worker_.reset();
}

ClientOptions FaultyWorld::OptionsFor(const Kind& kind) const {
  ClientOptions options;
  options.provider = provider_;
  options.hot_timeout = absl::Microseconds(100);
  options.probe_timeout = absl::Milliseconds(500);
  // The server has this process to share with all clients, on a machine that may be busy.
  options.peer_timeout = absl::Seconds(2);
  options.data_auth = kind.data_auth;
  if (kind.send_after_write) options.notification = Notification::kSendAfterWrite;
  // A session that waits for the delivery of its answers, or gave up the other way since its probe
  // was late on a busy machine, waits there for completions of clients that have failed
  // (docs/design/libfabric.md). So does a client that connects in the place of one that has.
  if (provider_ == "shm") {
    options.notification = Notification::kWriteImm;
    options.reconnect = false;
  }
  return options;
}

absl::StatusOr<std::unique_ptr<Client>> FaultyWorld::Connect(const Kind& kind) {
  if (server_ == nullptr) return absl::FailedPreconditionError("there is no server");
  return Client::Connect(server_->listen_address(), OptionsFor(kind));
}

absl::StatusOr<std::unique_ptr<Lease>> FaultyWorld::Acquire(const Kind& kind) {
  if (server_ == nullptr) return absl::FailedPreconditionError("there is no server");
  LeaseOptions options;
  options.memory_bytes = 64 << 20;  // windows are part of it
  options.client = OptionsFor(kind);
  return Lease::Acquire(server_->listen_address(), options);
}

absl::StatusOr<std::unique_ptr<ClientGroup>> FaultyWorld::ConnectGroup(const Kind& kind,
                                                                       size_t sessions) {
  if (server_ == nullptr) return absl::FailedPreconditionError("there is no server");
  return ClientGroup::Connect(server_->listen_address(), OptionsFor(kind), sessions);
}

}  // namespace invoker::faults
