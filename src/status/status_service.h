// The service Status of proto/bootstrap.proto: what a server does and has.
//
// Any client that may ask the bootstrap may ask here, unless a policy hides what others do.

#ifndef INVOKER_SRC_STATUS_STATUS_SERVICE_H_
#define INVOKER_SRC_STATUS_STATUS_SERVICE_H_

#include <functional>

#include "src/bootstrap/messages/worker_status.h"
#include "src/bootstrap/service/server.h"

namespace invoker::status {

// Reads what a server does and has. Any thread; does not wait for an executor.
using StatusReader = std::function<bootstrap::ServerStatus()>;

bootstrap::ServiceFactory MakeStatusService(StatusReader reader);

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_STATUS_SERVICE_H_
