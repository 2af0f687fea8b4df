// A file with one line of JSON for every lease that has ended, which the next server adds up.
//
// Each line is written with one write and forced to disk before Append returns. A line that was cut
// off by a crash of the machine is the last one: Open ends it, so that the next line begins anew,
// and says so. Nothing is ever removed from the file: rotate it while no server runs.
//
// Thread-safe.

#ifndef INVOKER_SRC_ACCOUNTING_USAGE_FILE_H_
#define INVOKER_SRC_ACCOUNTING_USAGE_FILE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker {

class UsageFile {
 public:
  // Makes the file if need be. Calls `on_line` with what each line says, in order; with a
  // description of each line that says nothing, `on_bad_line`.
  static absl::StatusOr<std::unique_ptr<UsageFile>> Open(
      const std::string& path,
      const std::function<void(const std::string& tenant, const ResourceUsage&)>& on_line,
      const std::function<void(absl::string_view)>& on_bad_line);
  ~UsageFile();
  UsageFile(const UsageFile&) = delete;
  UsageFile& operator=(const UsageFile&) = delete;

  // Blocks for the disk. Lease ids are secrets, and not written.
  absl::Status Append(const std::string& tenant, uint32_t executors, const ResourceUsage& usage)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  UsageFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  absl::Mutex mutex_;  // one line at a time
  const int fd_;
  bool torn_ ABSL_GUARDED_BY(mutex_) = false;  // the last line has perhaps no end
};

}  // namespace invoker

#endif  // INVOKER_SRC_ACCOUNTING_USAGE_FILE_H_
