// The posts of a session that have failed, and how long the session goes on in spite of them. Pure
// logic. Not thread-safe.

#ifndef INVOKER_SRC_INVOKE_SESSION_FAILED_POSTS_H_
#define INVOKER_SRC_INVOKE_SESSION_FAILED_POSTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "invoker/call_fate.h"
#include "src/invoke/wire/message_batch.h"

namespace invoker {

class FailedPosts {
 public:
  struct Post {
    CellRun run;  // the requests that it carried
    CallFate fate;
    absl::Status status;
  };

  // From now on the session ends so much later than the tick that sees the first failed post. If
  // the post has failed because the other side has ended, the lease gives a better reason
  // meanwhile.
  void Hold(int64_t hold_ns) { hold_ns_ = hold_ns; }

  void Add(Post post) { posts_.push_back(std::move(post)); }

  // Called on every tick, since a post may fail inside of a start. The first failure once the
  // session must end because of it, else nullptr. The peer may have got any part of a failed write,
  // so nothing can be placed there again.
  const absl::Status* Due(int64_t now_ns) {
    if (ABSL_PREDICT_TRUE(posts_.empty())) return nullptr;
    if (due_ns_ == 0) due_ns_ = now_ns + hold_ns_;
    return now_ns < due_ns_ ? nullptr : &posts_.front().status;
  }

  std::vector<Post> Take() { return std::exchange(posts_, {}); }

 private:
  std::vector<Post> posts_;
  int64_t hold_ns_ = 0;
  int64_t due_ns_ = 0;  // 0: not known yet
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_FAILED_POSTS_H_
