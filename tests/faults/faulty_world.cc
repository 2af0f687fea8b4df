#include "tests/faults/faulty_world.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/registered_window.h"
#include "tests/faults/fault_plan.h"

namespace invoker::faults {
namespace {

constexpr uint64_t kWindowBytes = 128 << 10;

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

std::string InputOf(uint64_t number, size_t bytes, Dice* dice) {
  std::string input(std::max(bytes, sizeof(number)), '\0');
  memcpy(&input[0], &number, sizeof(number));
  uint64_t state = dice->Draw();
  for (size_t i = sizeof(number); i < input.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    input[i] = static_cast<char>(state >> 56);
  }
  return input;
}

struct Started {
  uint64_t number;
  std::string input;
  Future future;
};

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
    if (runs > 1) Violation(absl::StrCat("call ", call, " was executed ", runs, " times"));
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
  bootstrap::ServerOptions server_options;
  server_options.listen = "127.0.0.1:0";
  absl::StatusOr<std::unique_ptr<bootstrap::Server>> server =
      bootstrap::Server::Start(server_options, worker_.get());
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
  worker_.reset();
}

absl::StatusOr<std::unique_ptr<Client>> FaultyWorld::Connect() {
  if (server_ == nullptr) return absl::FailedPreconditionError("there is no server");
  ClientOptions options;
  options.provider = provider_;
  options.hot_timeout = absl::Microseconds(100);
  options.probe_timeout = absl::Milliseconds(500);
  // One that gave that up, since its probe was late on a busy machine, would wait there for the
  // delivery of its answers, and so for completions of clients that have failed
  // (docs/providers.md).
  if (provider_ == "shm") options.notification = transport::Notification::kWriteImm;
  return Client::Connect(server_->listen_address(), options);
}

void MakeCalls(Client* client, const CallMix& mix, CallBook* book) {
  Dice dice(mix.seed, 0);
  const absl::StatusOr<RemoteFunction> function = client->Function("count");
  if (!function.ok()) return book->Violation(function.status().ToString());
  const auto check = [&](uint64_t number, absl::string_view input, const absl::Status& status,
                         absl::string_view answer) {
    book->End(number, status);
    if (status.ok() && answer != AnswerTo(input)) {
      book->Violation(absl::StrCat("call ", number, " of ", input.size(), " bytes: wrong bytes"));
    }
    if (!status.ok() && mix.must_succeed) {
      book->Violation(absl::StrCat("call ", number, " of ", input.size(),
                                   " bytes of a session without a fault: ", status.ToString()));
    }
  };
  std::deque<Started> started;
  const auto finish_first = [&] {
    Started call = std::move(started.front());
    started.pop_front();
    const absl::StatusOr<Response> response = call.future.Get();
    check(call.number, call.input, response.status(), response.ok() ? response->text() : "");
  };
  for (int i = 0; i < mix.calls; ++i) {
    const uint64_t number = book->Next();
    CallOptions options;
    options.timeout = mix.deadline;
    const uint32_t kind = dice.UpTo(16);
    const size_t bytes = size_t{1} << dice.UpTo(13);
    if (kind == 1 && mix.bulk) {
      const std::string input = InputOf(number, kWindowBytes + bytes * 37, &dice);
      std::string output(input.size(), '\0');
      const absl::StatusOr<uint64_t> size = client->InvokeLarge(
          *function, Bytes(reinterpret_cast<const std::byte*>(input.data()), input.size()),
          absl::MakeSpan(reinterpret_cast<std::byte*>(output.data()), output.size()), options);
      check(number, input, size.status(),
            size.ok() ? absl::string_view(output).substr(0, *size) : "");
      continue;
    }
    std::string input = InputOf(number, bytes + dice.UpTo(64), &dice);
    options.response_capacity = static_cast<uint32_t>(input.size());
    if (kind <= 8) {
      started.push_back({number, input, client->InvokeAsync(*function, input, options)});
      if (started.size() >= 8) finish_first();
      continue;
    }
    while (!started.empty()) finish_first();
    const absl::StatusOr<Response> response = client->Invoke(*function, input, options);
    check(number, input, response.status(), response.ok() ? response->text() : "");
  }
  while (!started.empty()) finish_first();
}

}  // namespace invoker::faults
