// The function by which a test makes a worker hold a lock.

#include <cstdlib>
#include <string>

#include "invoker/function.h"
#include "tests/failure/hold_lock.h"

// Input: the number of a signal, which the worker gets when it next gives up the lock of its own
// queue. Answers "holds".
INVOKER_FUNCTION(test.hold_own_lock, input, output) {
  const int signal = std::atoi(std::string(input.text()).c_str());
  if (!invoker::HoldLock(invoker::LockOf::kSelf, signal)) {
    return invoker::Result::Error("not preloaded");
  }
  output.Append("holds");
  return invoker::Result::Ok();
}

// The same with the lock of a client's queue, which is when the answer has been posted.
INVOKER_FUNCTION(test.hold_clients_lock, input, output) {
  const int signal = std::atoi(std::string(input.text()).c_str());
  if (!invoker::HoldLock(invoker::LockOf::kPeer, signal)) {
    return invoker::Result::Error("not preloaded");
  }
  output.Append("holds");
  return invoker::Result::Ok();
}
