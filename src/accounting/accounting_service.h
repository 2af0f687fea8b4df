// The service Accounting of proto/bootstrap.proto: tells what a SessionHost says was used, and what
// other servers have added here.
//
// Anyone who may ask the bootstrap may ask here, for what a policy shows them.

#ifndef INVOKER_SRC_ACCOUNTING_ACCOUNTING_SERVICE_H_
#define INVOKER_SRC_ACCOUNTING_ACCOUNTING_SERVICE_H_

#include "src/accounting/usage_accumulator.h"
#include "src/bootstrap/service/server.h"

namespace invoker {

// `accumulator` outlives the server; nullptr: other servers may add nothing.
bootstrap::ServiceFactory MakeAccountingService(UsageAccumulator* accumulator);

}  // namespace invoker

#endif  // INVOKER_SRC_ACCOUNTING_ACCOUNTING_SERVICE_H_
