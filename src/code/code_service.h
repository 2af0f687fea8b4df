// The service Code of proto/bootstrap.proto: takes clients' files into a BlobCache, and has them
// loaded into the executors of their leases, as far as the worker's policy allows.
//
// A file that was uploaded is there for every lease; whose it was, nobody asks: who names its hash
// has its bytes.

#ifndef INVOKER_SRC_CODE_CODE_SERVICE_H_
#define INVOKER_SRC_CODE_CODE_SERVICE_H_

#include "src/bootstrap/service/server.h"
#include "src/code/blob_cache.h"
#include "src/code/upload_policy.h"

namespace invoker {

// For ServerOptions::services; without it a client is told that the server is too old. `cache` must
// outlive the server, and may be nullptr if the policy is kNone.
bootstrap::ServiceFactory MakeCodeService(BlobCache* cache, UploadPolicy policy);

}  // namespace invoker

#endif  // INVOKER_SRC_CODE_CODE_SERVICE_H_
