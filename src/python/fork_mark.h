// Whether this is still the process in which something was made.
//
// What has threads does not survive fork(): the child has the memory and none of the threads.

#ifndef INVOKER_SRC_PYTHON_FORK_MARK_H_
#define INVOKER_SRC_PYTHON_FORK_MARK_H_

#include <cstdint>

namespace invoker::python {

class ForkMark {
 public:
  // Of this process.
  ForkMark();

  bool forked() const;
  int process() const { return process_; }

 private:
  uint32_t forks_;
  int process_;
};

// Once, when the module is imported.
void PrepareForkMarks();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_FORK_MARK_H_
