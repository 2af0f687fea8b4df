// The name of a session outside its executor.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_KEY_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_KEY_H_

#include <cstdint>

namespace invoker {

// Unique for the life of the executor, unlike the 16-bit number alone.
struct SessionKey {
  uint16_t number = 0;
  uint32_t epoch = 0;
  uint16_t fabric = 0;  // its place among the executor's fabrics
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_KEY_H_
