// Members that wait for a turn, in the order of waiting. The links lie in the members, so nothing
// is allocated, and a member leaves in constant time.
//
// One thread. Members leave the ring when they are destroyed; the ring outlives them.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_TURN_RING_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_TURN_RING_H_

#include <cassert>

namespace invoker {

template <typename T>
class TurnRing {
 public:
  // The base class of T.
  class Member {
   public:
    Member() = default;
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   protected:
    ~Member() {
      if (ring_ != nullptr) ring_->Unlink(this);
    }

   private:
    friend class TurnRing;

    TurnRing* ring_ = nullptr;  // nullptr: it waits in none
    Member* before_ = nullptr;
    Member* behind_ = nullptr;
  };

  TurnRing() = default;
  TurnRing(const TurnRing&) = delete;
  TurnRing& operator=(const TurnRing&) = delete;

  bool empty() const { return first_ == nullptr; }

  // Behind all others, unless it waits here already.
  void Join(T* one) {
    Member* member = one;
    if (member->ring_ != nullptr) return;
    member->ring_ = this;
    member->before_ = last_;
    member->behind_ = nullptr;
    (last_ == nullptr ? first_ : last_->behind_) = member;
    last_ = member;
  }

  // Takes out the member that has waited longest. Not of an empty ring.
  T* TakeFirst() {
    assert(!empty());
    T* one = static_cast<T*>(first_);
    Unlink(one);
    return one;
  }

  // Does nothing for a member that does not wait here.
  void Remove(T* one) {
    Member* member = one;
    if (member->ring_ == this) Unlink(member);
  }

 private:
  void Unlink(Member* member) {
    member->ring_ = nullptr;
    (member->before_ == nullptr ? first_ : member->before_->behind_) = member->behind_;
    (member->behind_ == nullptr ? last_ : member->behind_->before_) = member->before_;
  }

  Member* first_ = nullptr;
  Member* last_ = nullptr;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_TURN_RING_H_
