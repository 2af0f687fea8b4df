// Drops what leaves by a link, while the link stays up and every address stays where it is: nothing
// tells either end. By the kernel's "blackhole" queue, which needs no module.
//
// Any thread. Needs the right to set up this namespace's network.

#ifndef INVOKER_TESTS_FAILURE_PACKET_LOSS_H_
#define INVOKER_TESTS_FAILURE_PACKET_LOSS_H_

#include "absl/status/status.h"

namespace invoker::failure {

// Takes effect at once. What `link` did before with what leaves by it is not restored, but the
// kernel's own choice.
absl::Status DropWhatLeaves(const char* link, bool drop);

}  // namespace invoker::failure

#endif  // INVOKER_TESTS_FAILURE_PACKET_LOSS_H_
