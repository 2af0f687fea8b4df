// Completion queues and the channels that announce their completions.

#ifndef INVOKER_TESTS_EFA_DEVICE_COMPLETION_QUEUE_H_
#define INVOKER_TESTS_EFA_DEVICE_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "tests/efa_device/gid.h"
#include "tests/efa_device/status.h"

namespace efa_device {

struct Completion {
  uint64_t id = 0;  // the work request's
  Status status = Status::kOk;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  uint32_t bytes = 0;
  uint32_t qpn = 0;
  uint32_t source_qpn = 0;
  uint16_t address_handle = 0;  // the sender's; AddressHandles::kUnknown if it has none here
  Gid source_gid = {};
  bool has_immediate = false;
  uint32_t immediate = 0;
  bool unsolicited = false;  // consumed no receive
  // The queue pair counts its used slots here. Taking the completion frees one.
  std::shared_ptr<std::atomic<size_t>> slots;
};

// Queues "there are completions" events of the queues that belong to it. Any thread may call it.
class CompletionChannel {
 public:
  CompletionChannel();
  ~CompletionChannel();
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;

  // Readable while there is an event; negative if it could not be made.
  int fd() const { return fd_; }

  // `owner` is what the user knows the queue by.
  void Announce(void* owner);
  // Takes an event. Blocks if there is none, unless the user made fd() non-blocking: then false,
  // with errno set.
  bool Next(void** owner);
  // Drops the events of a queue that goes away.
  void Forget(void* owner);

 private:
  int fd_;
  std::mutex lock_;
  std::deque<void*> events_;
};

// Any thread may call it.
class CompletionQueue {
 public:
  // `channel` may be null. It announces the queue as `owner`.
  CompletionQueue(size_t capacity, CompletionChannel* channel, void* owner);
  ~CompletionQueue();

  // Aborts the process if the queue is full. A real card would lose the completion, and the program
  // would wait for it for ever.
  void Push(const Completion& completion);
  bool Pop(Completion* completion);
  // Asks for one event for the next completion.
  void Arm();
  // Removes what a destroyed queue pair left.
  void Purge(uint32_t qpn);

 private:
  const size_t capacity_;
  CompletionChannel* const channel_;
  void* const owner_;
  std::mutex lock_;
  bool armed_ = false;
  std::deque<Completion> completions_;
};

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_COMPLETION_QUEUE_H_
