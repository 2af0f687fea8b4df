// Keeps an object alive, by a share of its own, from Begin until it has been closed and nothing
// uses it any more. So a user counts no references. Under the turn lock.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_KEEP_ALIVE_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_KEEP_ALIVE_H_

#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>

namespace invoker {

class KeepAlive {
 public:
  void Begin(std::shared_ptr<const void> share) { share_ = std::move(share); }

  // A user: a thread inside of a method, or a call that has not been given back.
  void Add() { ++users_; }
  void Remove() {
    assert(users_ > 0);
    --users_;
  }
  // A user that holds cells of the response window: a response that has been handed out.
  void AddResponse() { ++responses_; }
  void RemoveResponse() {
    assert(responses_ > 0);
    --responses_;
  }
  uint32_t responses() const { return responses_; }

  void Close() { closed_ = true; }
  bool closed() const { return closed_; }
  // The share, once it is not needed any more; else nullptr. To be let go of without the lock,
  // since that may end the object.
  std::shared_ptr<const void> TakeShare() {
    return closed_ && users_ + responses_ == 0 ? std::move(share_) : nullptr;
  }

 private:
  std::shared_ptr<const void> share_;
  uint32_t users_ = 0;
  uint32_t responses_ = 0;
  bool closed_ = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_KEEP_ALIVE_H_
