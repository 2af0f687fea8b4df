#include "src/base/start_thread.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace invoker::transport {

absl::Status StartThread(std::thread* thread, std::function<void()> run) {
  try {
    *thread = std::thread(std::move(run));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread: ", error.code().message(),
                     "; allow more of them (ulimit -u, pids.max of the control group)"));
  }
  return absl::OkStatus();
}

}  // namespace invoker::transport
