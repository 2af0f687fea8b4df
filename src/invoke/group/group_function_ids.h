// A function as each executor of a group has it: ids may differ, and change when another session
// follows one that was lost.

#ifndef INVOKER_SRC_INVOKE_GROUP_GROUP_FUNCTION_IDS_H_
#define INVOKER_SRC_INVOKE_GROUP_GROUP_FUNCTION_IDS_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "invoker/client.h"
#include "src/invoke/group/executor_loads.h"

namespace invoker {

class GroupFunctionIds {
 public:
  // For so many executors. No session has it before Set.
  GroupFunctionIds(std::string name, std::string signature, size_t executors)
      : name_(std::move(name)), signature_(std::move(signature)), at_(executors) {}

  const std::string& name() const { return name_; }
  const std::string& signature() const { return signature_; }

  // The function in a session that a call is counted for. nullptr if that has been lost, and may
  // have been followed by one with other ids; a session that lives has it. Any thread.
  const RemoteFunction* In(const ExecutorLoads::Session& session) const {
    const RemoteFunction* function = at_[session.executor()].load(std::memory_order_acquire);
    // In this order: it is set for another session only once this one is marked as lost.
    return session.lost() ? nullptr : function;
  }

  // For the executor's next session, while it has none. One thread at a time.
  void Set(size_t executor, const RemoteFunction& function) {
    at_[executor].store(Keep(function), std::memory_order_release);
  }

 private:
  const RemoteFunction* Keep(const RemoteFunction& function) {
    for (const RemoteFunction& known : known_) {
      if (known.id() == function.id()) return &known;
    }
    return &known_.emplace_back(function);
  }

  const std::string name_;
  const std::string signature_;
  std::vector<std::atomic<const RemoteFunction*>> at_;
  // One of each id that there has been; they stay, since others may be looking at them.
  std::deque<RemoteFunction> known_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_GROUP_FUNCTION_IDS_H_
