// The memory that one client has registered, at its executor: which numbers its windows have.
//
// The executor's thread looks windows up, for calls. Clients register and take back on other
// threads, which do not wait for it: it may be inside a function for long. Whatever finds the
// session (LentWindows) may have this a moment longer than the session is there.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_WINDOWS_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_WINDOWS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/client_window.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker {

// Any thread; does not block.
class SessionWindows {
 public:
  // `peer` is the client's address, and `profile` the fabric's.
  SessionWindows(fi_addr_t peer, const transport::Profile& profile)
      : peer_(peer), provider_(profile.provider), remote_reads_(profile.remote_reads) {}

  // The number, from 1. INVALID_ARGUMENT if that can be no window, RESOURCE_EXHAUSTED if there are
  // too many, FAILED_PRECONDITION if the fabric cannot do it.
  absl::StatusOr<uint16_t> Register(const bootstrap::WindowDescriptor& window, bool readable,
                                    bool writable) ABSL_LOCKS_EXCLUDED(mutex_);

  // nullptr if there is none with this number, or none any more.
  std::shared_ptr<ClientWindow> Find(uint16_t number) const ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on Find does not find it, no transfer of it begins, and calls that need it are stopped
  // when they are next moved on. It keeps its number until Remove. nullptr if there is none.
  std::shared_ptr<ClientWindow> Revoke(uint16_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(uint16_t number) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const fi_addr_t peer_;
  const std::string provider_;
  const bool remote_reads_;
  mutable absl::Mutex mutex_;
  uint16_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint16_t, std::shared_ptr<ClientWindow>> windows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_WINDOWS_H_
