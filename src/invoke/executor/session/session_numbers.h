// The sessions of one endpoint by their numbers, which doorbells carry. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_NUMBERS_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_NUMBERS_H_

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/invoke/executor/session/executor_session.h"
#include "src/invoke/executor/session/session_key.h"

namespace invoker {

class SessionNumbers {
 public:
  static constexpr uint32_t kMost = 1u << 16;

  // `first` is the first number that is given out.
  explicit SessionNumbers(uint16_t first) : next_(first) {}

  // Makes room for sessions: half a megabyte of memory. Any thread, before all else.
  void Allocate() { sessions_.resize(kMost); }

  // nullptr if there is none with this number.
  ExecutorSession* Find(uint16_t number) const { return sessions_[number].get(); }
  // nullptr if there is none with this number, or another one has it now.
  ExecutorSession* Find(SessionKey key) const {
    ExecutorSession* session = Find(key.number);
    return session != nullptr && session->epoch() == key.epoch ? session : nullptr;
  }

  // The next number that no session has: numbers wrap. Nothing if all are taken.
  std::optional<uint16_t> FindFree() {
    if (live_.size() == kMost) return std::nullopt;
    while (Find(next_) != nullptr) ++next_;
    return next_++;
  }
  // Where FindFree looks first.
  uint16_t next() const { return next_; }

  void Add(std::unique_ptr<ExecutorSession> session) {
    const uint16_t number = session->number();
    assert(Find(number) == nullptr);
    sessions_[number] = std::move(session);
    live_.push_back(number);
  }
  void Remove(uint16_t number) {
    assert(Find(number) != nullptr);
    sessions_[number].reset();
    live_.erase(std::find(live_.begin(), live_.end(), number));
  }

  // The numbers of all sessions, in no order.
  const std::vector<uint16_t>& live() const { return live_; }
  bool empty() const { return live_.empty(); }

 private:
  std::vector<std::unique_ptr<ExecutorSession>> sessions_;  // by number
  std::vector<uint16_t> live_;
  uint16_t next_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_NUMBERS_H_
