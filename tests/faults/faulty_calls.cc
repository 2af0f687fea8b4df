// The calls that are made in a FaultyWorld.

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "invoker/registered_window.h"
#include "tests/faults/fault_plan.h"
#include "tests/faults/faulty_world.h"
#include "tests/invoke/with_output.h"

namespace invoker::faults {
namespace {

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

Bytes BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Takes down how a call has ended that nobody cancelled.
void Check(const CallMix& mix, uint64_t number, absl::string_view input, const absl::Status& status,
           absl::string_view answer, CallBook* book) {
  book->End(number, status);
  if (status.ok() && answer != AnswerTo(input)) {
    book->Violation(absl::StrCat("call ", number, " of ", input.size(), " bytes: wrong bytes"));
  }
  if (!status.ok() && mix.must_succeed) {
    book->Violation(absl::StrCat("call ", number, " of ", input.size(),
                                 " bytes of a session without a fault: ", status.ToString()));
  }
}

void Check(const CallMix& mix, uint64_t number, absl::string_view input,
           const absl::StatusOr<Response>& response, CallBook* book) {
  Check(mix, number, input, response.status(), response.ok() ? response->text() : "", book);
}

// Calls that one thread has under way.
class Started {
 public:
  Started(const CallMix& mix, CallBook* book) : mix_(mix), book_(book) {}

  size_t size() const { return calls_.size(); }
  void Add(uint64_t number, std::string input, Future future) {
    calls_.push_back({number, std::move(input), std::move(future), false});
  }
  // One of them, if it has not ended.
  void Cancel(Dice* dice) {
    if (calls_.empty()) return;
    Call& call = calls_[dice->UpTo(static_cast<uint32_t>(calls_.size())) - 1];
    call.cancelled = call.future.Cancel() || call.cancelled;
  }
  void FinishFirst() {
    Call call = std::move(calls_.front());
    calls_.pop_front();
    const absl::StatusOr<Response> response = call.future.Get();
    if (!call.cancelled) return Check(mix_, call.number, call.input, response, book_);
    book_->End(call.number, response.status());
    if (!absl::IsCancelled(response.status())) {
      book_->Violation(absl::StrCat("call ", call.number, " was cancelled, and then ended so: ",
                                    response.status().ToString()));
    }
  }
  void FinishAll() {
    while (!calls_.empty()) FinishFirst();
  }

 private:
  struct Call {
    uint64_t number;
    std::string input;
    Future future;
    bool cancelled;
  };

  const CallMix& mix_;
  CallBook* const book_;
  std::deque<Call> calls_;
};

void CallLarge(Client* client, const RemoteFunction& function, const CallMix& mix, size_t bytes,
               const CallOptions& options, Dice* dice, CallBook* book) {
  const uint64_t number = book->Next();
  const std::string input = InputOf(number, kWindowBytes + bytes, dice);
  std::string output(input.size(), '\0');
  const absl::StatusOr<Response> response = client->Invoke(
      function, BytesOf(input),
      WithOutput(absl::MakeSpan(reinterpret_cast<std::byte*>(output.data()), output.size()),
                 options));
  Check(mix, number, input, response.status(), response.ok() ? response->text() : "", book);
}

}  // namespace

void MakeCalls(Client* client, const CallMix& mix, CallBook* book) {
  Dice dice(mix.seed, 0);
  const absl::StatusOr<RemoteFunction> function = client->Function("count");
  if (!function.ok()) return book->Violation(function.status().ToString());
  Started started(mix, book);
  for (int i = 0; i < mix.calls; ++i) {
    CallOptions options;
    options.timeout = mix.deadline;
    const uint32_t kind = dice.UpTo(16);
    const size_t bytes = size_t{1} << dice.UpTo(13);
    if (kind == 1 && mix.bulk) {
      CallLarge(client, *function, mix, bytes * 37, options, &dice, book);
      continue;
    }
    const uint64_t number = book->Next();
    std::string input = InputOf(number, bytes + dice.UpTo(64), &dice);
    options.response_capacity = static_cast<uint32_t>(input.size());
    if (kind <= 8) {
      Future future = client->InvokeAsync(*function, input, options);
      started.Add(number, std::move(input), std::move(future));
      if (kind <= 3) started.Cancel(&dice);
      if (started.size() >= 8) started.FinishFirst();
      continue;
    }
    started.FinishAll();
    Check(mix, number, input, client->Invoke(*function, input, options), book);
  }
  started.FinishAll();
}

void MakeGroupCalls(ClientGroup* group, const CallMix& mix, CallBook* book) {
  Dice dice(mix.seed, 0);
  const absl::StatusOr<GroupFunction> function = group->Function("count");
  if (!function.ok()) return book->Violation(function.status().ToString());
  absl::BlockingCounter under_way(mix.calls);
  for (int i = 0; i < mix.calls; ++i) {
    CallOptions options;
    options.timeout = mix.deadline;
    options.retry = dice.UpTo(3) - 1;
    const uint64_t number = book->Next(options.retry);
    const std::string input = InputOf(number, size_t{1} << dice.UpTo(13), &dice);
    options.response_capacity = static_cast<uint32_t>(input.size());
    if (dice.UpTo(2) == 1) {
      Check(mix, number, input, group->Invoke(*function, input, options), book);
      under_way.DecrementCount();
      continue;
    }
    group->InvokeAsync(*function, BytesOf(input), options,
                       [&mix, number, input, book, &under_way](absl::StatusOr<Response> response) {
                         Check(mix, number, input, response, book);
                         under_way.DecrementCount();
                       });
  }
  under_way.Wait();
}

}  // namespace invoker::faults
