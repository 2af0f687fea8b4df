// Clients of a group whose sessions were lost and have been followed by others.
//
// Closing one waits for the callbacks of its calls, and these may wait for anything that the group
// does. So each is left alone until all of them have run and no thread is in a call of it, and only
// then closed, by a thread of its own that starts with the first one.

#ifndef INVOKER_SRC_INVOKE_GROUP_RETIRED_CLIENTS_H_
#define INVOKER_SRC_INVOKE_GROUP_RETIRED_CLIENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "invoker/client.h"
#include "src/invoke/group/executor_loads.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {

class RetiredClients {
 public:
  explicit RetiredClients(std::shared_ptr<ExecutorLoads> loads) : loads_(std::move(loads)) {}
  // Closes all that are left, and so waits for their callbacks.
  ~RetiredClients();
  RetiredClients(const RetiredClients&) = delete;
  RetiredClients& operator=(const RetiredClients&) = delete;

  // The session has been lost; another one follows it, or is about to. Once closed, a client stays
  // until one that came later for the same executor has been closed too. Does not block. Any
  // thread.
  void Add(ExecutorLoads::Session session, std::shared_ptr<Client> client)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The drivers of the clients that are still open. Any thread.
  std::vector<std::shared_ptr<CallDriver>> drivers() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Retired {
    ExecutorLoads::Session session;
    uint64_t number;  // in the order of Add
    std::shared_ptr<Client> client;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // The next one that nobody uses; blocks. Nothing: to end.
  std::optional<Retired> Next() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<ExecutorLoads> loads_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Retired> open_ ABSL_GUARDED_BY(mutex_);
  std::map<size_t, Retired> closed_;  // by executor, the latest; the thread's
  std::thread thread_;                // last: it uses all of the above
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_RETIRED_CLIENTS_H_
