// Whether this is still the process in which something was made.
//
// What has threads does not survive fork(): the child has the memory and none of the threads. That
// goes for the libraries below too (gRPC, libfabric), which cannot be started anew, and whose
// descriptors the child shares: what it did with them would end in the parent, too.

#ifndef INVOKER_SRC_PYTHON_NATIVE_SERVER_FORK_MARK_H_
#define INVOKER_SRC_PYTHON_NATIVE_SERVER_FORK_MARK_H_

#include <cstdint>

#include "absl/status/status.h"

namespace invoker::python {

class ForkMark {
 public:
  // Marks this process.
  ForkMark();

  bool forked() const;
  int process() const { return process_; }

 private:
  uint32_t forks_;
  int process_;
};

// Before the libraries below are used by whatever does not belong to a client, a lease or a server
// that is there already. FAILED_PRECONDITION if this process was forked from one that had used
// them. Any thread.
absl::Status BeginUse();

// Once, when the module is imported.
void PrepareForkMarks();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_SERVER_FORK_MARK_H_
