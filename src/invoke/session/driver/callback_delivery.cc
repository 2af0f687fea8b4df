#include "src/invoke/session/driver/callback_delivery.h"

#include <algorithm>
#include <cstddef>

#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"

namespace invoker {

thread_local CallbackDelivery::Delivery* CallbackDelivery::t_delivery_ = nullptr;
thread_local bool CallbackDelivery::t_elsewhere_ = false;

void CallbackDelivery::Delivery::RunNext() {
  Result& next = rest.front();
  rest.remove_prefix(1);
  next.on_done(std::move(next.response));
}

void CallbackDelivery::Run(TurnLock& lock, std::vector<Call*>* finished, bool waits_for_call,
                           absl::FunctionRef<absl::StatusOr<Response>(Call*)> collect) {
  constexpr size_t kMost = 16;
  absl::InlinedVector<Result, kMost> results;
  const size_t count = std::min(finished->size(), kMost);
  for (size_t i = 0; i < count; ++i) {
    Call* call = (*finished)[i];
    CallDone on_done = std::move(call->on_done);
    results.push_back({std::move(on_done), collect(call)});
  }
  finished->erase(finished->begin(), finished->begin() + static_cast<std::ptrdiff_t>(count));
  ++delivering_;
  lock.Unlock();
  Delivery delivery = {this, t_delivery_, waits_for_call, absl::MakeSpan(results)};
  t_delivery_ = &delivery;
  while (!delivery.rest.empty()) delivery.RunNext();
  results.clear();
  t_delivery_ = delivery.outer;
  lock.Lock();
  --delivering_;
  if (ABSL_PREDICT_FALSE(closer_ != nullptr) && delivering_ == 0) closer_->Wake();
}

bool CallbackDelivery::RunNext(TurnLock& lock) {
  Delivery* at = t_delivery_;
  while (at != nullptr && (at->from != this || at->rest.empty())) at = at->outer;
  if (at == nullptr) return false;
  lock.Unlock();
  at->RunNext();
  lock.Lock();
  return true;
}

bool CallbackDelivery::AwaitOthers(TurnLock& lock) {
  if (delivering_ == 0 || RunsHere()) return false;
  CallWaiter waiter;
  closer_ = &waiter;
  lock.Unlock();
  waiter.Wait(absl::InfiniteDuration());
  lock.Lock();
  closer_ = nullptr;
  return true;
}

bool CallbackDelivery::RunsHere() const {
  const Delivery* at = t_delivery_;
  while (at != nullptr && at->from != this) at = at->outer;
  return at != nullptr;
}

bool CallbackDelivery::OthersMayRelease(uint32_t waiting, bool due) const {
  if (t_delivery_ == nullptr) return waiting + delivering_ > 0 || due;
  const std::optional<uint32_t> here = CountHere();
  return here.has_value() && waiting + delivering_ > *here + stuck_;
}

// What this thread counts for in OthersMayRelease. Nothing if it is inside of another session's
// callback, too.
std::optional<uint32_t> CallbackDelivery::CountHere() const {
  uint32_t counted = 0;
  for (const Delivery* at = t_delivery_; at != nullptr; at = at->outer) {
    if (at->from != this) return std::nullopt;
    counted += at->waits_for_call ? 2 : 1;
  }
  return counted;
}

}  // namespace invoker
