// The calls of an endpoint and its completion queue, where peers share locks with them
// (ProfileRow::peers_share_locks): each that a peer can keep for ever is left (SpinEscape).
//
// It gives out an endpoint and a queue that stand for the provider's, and take those calls and no
// other, so that nobody who posts or polls knows of it, and other fabrics pay nothing.
//
// Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_SPIN_ESCAPE_GUARDED_CALLS_H_
#define INVOKER_SRC_TRANSPORT_SPIN_ESCAPE_GUARDED_CALLS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "src/transport/base/libfabric.h"
#include "src/transport/spin_escape/spin_escape.h"

namespace invoker::transport {

class GuardedCalls {
 public:
  // Whether calls on these can be guarded.
  static bool Possible(const fid_ep* endpoint, const fid_cq* queue);

  // Both must outlive it. Calls spin for `limit` at most. Unless `posts_are_clean`, a post may hold
  // something of the endpoint's when it comes to a peer's lock, and costs the endpoint, too.
  GuardedCalls(fid_ep* endpoint, fid_cq* queue, absl::Duration limit, bool posts_are_clean);
  GuardedCalls(const GuardedCalls&) = delete;
  GuardedCalls& operator=(const GuardedCalls&) = delete;

  // For fi_inject_writedata, fi_writedata, fi_write, fi_writemsg, fi_read, fi_send, fi_recv and
  // fi_atomic.
  fid_ep* endpoint() { return &guarded_endpoint_.object; }
  // For fi_cq_read.
  fid_cq* queue() { return &guarded_queue_.object; }

  // A peer has the lock of this endpoint's own queue, and the thread that wanted it has left the
  // provider where it was, with what it held: the endpoint and the queue may not be called any
  // more, not even to close them. Calls that are guarded fail at once.
  bool lost() const { return lost_; }

 private:
  // An object of ours; libfabric's calls come with its address.
  template <typename Object>
  struct Guarded {
    Object object;
    GuardedCalls* owner;
  };
  template <typename Object>
  static GuardedCalls& Of(const Object* object);

  // For a call that wants the lock of this peer's queue.
  template <typename Call>
  ssize_t Post(fi_addr_t peer, const Call& call);
  bool Refuses(fi_addr_t peer) const;
  void NoteLeft(fi_addr_t peer);
  // For one that wants the lock of our own.
  template <typename Call>
  ssize_t Own(const Call& call);

  static ssize_t InjectData(fid_ep* endpoint, const void* source, size_t bytes, uint64_t data,
                            fi_addr_t peer, uint64_t address, uint64_t key);
  static ssize_t WriteData(fid_ep* endpoint, const void* source, size_t bytes, void* descriptor,
                           uint64_t data, fi_addr_t peer, uint64_t address, uint64_t key,
                           void* context);
  static ssize_t Write(fid_ep* endpoint, const void* source, size_t bytes, void* descriptor,
                       fi_addr_t peer, uint64_t address, uint64_t key, void* context);
  static ssize_t WriteMessage(fid_ep* endpoint, const fi_msg_rma* message, uint64_t flags);
  static ssize_t Read(fid_ep* endpoint, void* target, size_t bytes, void* descriptor,
                      fi_addr_t peer, uint64_t address, uint64_t key, void* context);
  static ssize_t Send(fid_ep* endpoint, const void* source, size_t bytes, void* descriptor,
                      fi_addr_t peer, void* context);
  static ssize_t Receive(fid_ep* endpoint, void* target, size_t bytes, void* descriptor,
                         fi_addr_t peer, void* context);
  static ssize_t Atomic(fid_ep* endpoint, const void* operand, size_t count, void* descriptor,
                        fi_addr_t peer, uint64_t address, uint64_t key, fi_datatype type, fi_op op,
                        void* context);
  static ssize_t ReadQueue(fid_cq* queue, void* entries, size_t count);

  fid_ep* const endpoint_;
  fid_cq* const queue_;
  fi_ops_rma rma_ = {};
  fi_ops_msg msg_ = {};
  fi_ops_atomic atomic_ = {};
  fi_ops_cq cq_ = {};
  Guarded<fid_ep> guarded_endpoint_;
  Guarded<fid_cq> guarded_queue_;
  const int64_t limit_ns_;
  const bool posts_are_clean_;
  bool lost_ = false;
  bool has_left_ = false;  // a call
  // The peer of the last post that was left, and until when others to it are not tried: those that
  // come before the poster has heard of it.
  fi_addr_t kept_by_ = FI_ADDR_UNSPEC;
  int64_t kept_until_ns_ = 0;
  SpinEscape escape_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SPIN_ESCAPE_GUARDED_CALLS_H_
