// What a RegisteredWindow is made of. For the source files that implement it.

#ifndef INVOKER_SRC_INVOKE_CLIENT_REGISTERED_WINDOW_STATE_H_
#define INVOKER_SRC_INVOKE_CLIENT_REGISTERED_WINDOW_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "invoker/registered_window.h"
#include "src/invoke/connect/connection.h"
#include "src/invoke/session/driver/call_driver.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {

// One call's use of its windows, which share it, under the driver's turn lock: the last of them to
// go has the session forget it.
struct WindowUse {
  bool busy = false;     // the call has been started and not been answered
  bool starting = true;  // it may still be
  int holders = 0;       // places where windows have it: two, of a window that is both
};

struct RegisteredWindow::State {
  std::shared_ptr<CallDriver> driver;
  Connection* connection = nullptr;  // there for as long as the driver's status is OK
  uint16_t number = 0;
  WindowAccess access = WindowAccess::kRead;
  transport::MemoryRegion region;
  // Calls that use the window, and some that have. Under the driver's turn lock.
  std::vector<std::shared_ptr<WindowUse>> uses;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_REGISTERED_WINDOW_STATE_H_
