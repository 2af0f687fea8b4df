// The service Operations of proto/bootstrap.proto: what an operator does to a server.

#ifndef INVOKER_SRC_SERVER_OPERATIONS_SERVICE_H_
#define INVOKER_SRC_SERVER_OPERATIONS_SERVICE_H_

#include <functional>

#include "src/bootstrap/service/server.h"

namespace invoker {

// `drain` begins the end of the server. Any thread; must not block. Empty: the server does not end
// so.
bootstrap::ServiceFactory MakeOperationsService(std::function<void()> drain);

}  // namespace invoker

#endif  // INVOKER_SRC_SERVER_OPERATIONS_SERVICE_H_
