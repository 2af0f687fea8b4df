// Completion queues, and whose turn it is.
//
// Nothing here calls another library while turns are taken: what that library does would be counted
// as the measured program's.

#ifndef INVOKER_TESTS_BUDGET_LOCKSTEP_TURNS_H_
#define INVOKER_TESTS_BUDGET_LOCKSTEP_TURNS_H_

#include <rdma/fi_eq.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace invoker::lockstep {

// System calls without the C library.
long RawSyscall(long number, long a = 0, long b = 0, long c = 0, long d = 0);

// Guards everything in this library.
class StepLock {
 public:
  void lock();
  void unlock();

 private:
  std::atomic<bool> taken_{false};
};

StepLock& Lock();

class Queue;

struct Entry {
  fi_cq_data_entry data;
  const Queue* sender;  // nullptr: of our own operation
};

// Room for as many entries as any test has under way.
class Ring {
 public:
  bool empty() const { return begin_ == end_; }
  bool full() const { return end_ - begin_ == kEntries; }
  const Entry& front() const { return entries_[begin_ % kEntries]; }
  void Pop() { ++begin_; }
  void Push(const Entry& entry) { entries_[end_++ % kEntries] = entry; }

 private:
  static constexpr size_t kEntries = 1 << 14;

  Entry entries_[kEntries];
  size_t begin_ = 0;
  size_t end_ = 0;
};

class Queue {
 public:
  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Under the lock.
  bool HasRoom() const { return !own_.full() && !remote_.full(); }
  void PushOwn(const fi_cq_data_entry& entry);
  void PushRemote(const fi_cq_data_entry& entry, const Queue* sender);

  // Without the lock. While turns are taken, one entry at a time and own operations' first, and
  // -FI_EAGAIN only where everybody waits and nothing is under way.
  ssize_t Read(fi_cq_data_entry* entries, size_t count);

  fid_cq handle = {};
  int wait_fd = -1;

 private:
  friend void BeginTurns();

  ssize_t ReadNow(fi_cq_data_entry* entries, size_t count);
  bool Deliverable() const;
  bool NothingUnderWay() const;
  void Take(Ring* ring, fi_cq_data_entry* entry);

  Ring own_;
  Ring remote_;
  bool taking_turns_ = false;
  bool waiting_ = false;
  Queue* next_;  // in the list of all that are open
};

void BeginTurns();

}  // namespace invoker::lockstep

#endif  // INVOKER_TESTS_BUDGET_LOCKSTEP_TURNS_H_
