#include "tests/failure/flood.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/transport/reactor/reactor.h"

namespace invoker::failure {
namespace {

// How many bytes of an answer are not what they must be.
uint64_t WrongBytes(const std::string& input, uint64_t number, Bytes output) {
  if (output.size() != input.size()) return std::max(output.size(), input.size());
  uint64_t answered;
  std::memcpy(&answered, output.data(), sizeof(answered));
  uint64_t wrong = answered == number ? 0 : sizeof(answered);
  for (size_t i = kNumberBytes; i < input.size(); ++i) {
    const uint8_t expected = Changed(static_cast<uint8_t>(input[i]), number, i);
    if (static_cast<uint8_t>(output[i]) != expected) ++wrong;
  }
  return wrong;
}

}  // namespace

Flood::Flood(StartCall start, ExecutionMarks* marks, size_t outstanding, size_t largest,
             uint64_t seed, bool goes_on)
    : start_(std::move(start)),
      marks_(marks),
      largest_(largest),
      goes_on_(goes_on),
      random_(seed),
      slots_(outstanding) {}

Flood::~Flood() {
  Stop();
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](uint64_t* under_way) { return *under_way == 0; }, &under_way_));
}

void Flood::Start() {
  {
    absl::MutexLock lock(&mutex_);
    under_way_ = slots_.size();
  }
  for (size_t slot = 0; slot < slots_.size(); ++slot) Next(slot);
}

void Flood::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
}

void Flood::Next(size_t index) {
  Slot& slot = slots_[index];
  slot.number = marks_->NextNumber();
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_ || slot.number >= kMostCalls) {
      --under_way_;
      return;
    }
    slot.input.resize(kNumberBytes + random_() % (largest_ - kNumberBytes + 1));
  }
  std::memcpy(slot.input.data(), &slot.number, sizeof(slot.number));
  for (size_t i = kNumberBytes; i < slot.input.size(); ++i) {
    slot.input[i] = static_cast<char>(slot.number + i);
  }
  CallOptions options;
  options.response_capacity = static_cast<uint32_t>(slot.input.size());
  start_(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(slot.input.data()), slot.input.size()),
      options,
      [this, index](absl::StatusOr<Response> response) { Ended(index, std::move(response)); });
}

void Flood::Ended(size_t index, absl::StatusOr<Response> response) {
  const Slot& slot = slots_[index];
  if (response.ok()) {
    const uint64_t wrong = WrongBytes(slot.input, slot.number, response->data());
    const bool executed = marks_->executed(slot.number) > 0;
    // Its cells are needed for the next.
    response = absl::CancelledError();
    absl::MutexLock lock(&mutex_);
    ++result_.answered;
    result_.wrong_bytes += wrong;
    if (!executed) ++result_.unexecuted;
  } else {
    absl::MutexLock lock(&mutex_);
    Fail(slot.number, response.status());
    if (!goes_on_) stopped_ = true;
  }
  Next(index);
}

void Flood::Fail(uint64_t number, const absl::Status& status) {
  if (result_.first_error.ok()) result_.first_error = status;
  ++result_.failed;
  result_.last_ended_ns = transport::MonotonicNs();
  switch (GetCallFate(status)) {
    case CallFate::kNotSent:
      ++result_.not_sent;
      result_.unsent.push_back(number);
      break;
    case CallFate::kMaybeExecuted:
      ++result_.maybe_executed;
      break;
    default:
      ++result_.other_fate;
      break;
  }
}

bool Flood::AwaitAnswered(uint64_t answered, absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  const uint64_t wanted = result_.answered + answered;
  const auto reached = [this, wanted]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return result_.answered >= wanted || (stopped_ && under_way_ == 0);
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&reached), limit) && result_.answered >= wanted;
}

bool Flood::AwaitFailure(absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(
      absl::Condition(
          +[](uint64_t* failed) { return *failed > 0; }, &result_.failed),
      limit);
}

bool Flood::AwaitEnd(absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(
      absl::Condition(
          +[](uint64_t* under_way) { return *under_way == 0; }, &under_way_),
      limit);
}

uint64_t Flood::under_way() {
  absl::MutexLock lock(&mutex_);
  return under_way_;
}

FloodResult Flood::Result() {
  absl::MutexLock lock(&mutex_);
  return result_;
}

}  // namespace invoker::failure
