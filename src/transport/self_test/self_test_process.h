// Self-tests in processes of their own: a provider that crashes or hangs in one harms nobody else.
//
// A helper program (tools/invoker_self_test.cc) runs each. It is started with exec: a process with
// threads must not merely fork.

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_PROCESS_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_PROCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/self_test/self_test.h"

namespace invoker::transport {

struct SelfTestOptions {
  // The helper's path; empty: FindInstalledProgram.
  std::string program;
  // RunSelfTest's, which is more than a fabric needs that works. A helper that has not ended after
  // four times as long is killed.
  absl::Duration limit = absl::Seconds(5);
};

// RunSelfTest for each request, all at the same time; the results come in the same order. If a
// helper dies or is killed, the status of its result says so (ABORTED, DEADLINE_EXCEEDED), and what
// it left in shared memory is removed. NOT_FOUND, as a whole, if there is no helper program.
//
// Helpers have this process's environment, end with it, and are waited for by their numbers. Blocks
// until all have ended: the calling thread, any thread.
absl::StatusOr<std::vector<SelfTestResult>> RunSelfTestsApart(
    absl::Span<const FabricRequest> requests, const SelfTestOptions& options);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_PROCESS_H_
