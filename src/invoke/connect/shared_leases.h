// The leases without executors of their own that the clients of this process share.
//
// A client joins the lease of another client with the same worker. That saves it the first look at
// the worker, and both sides a stream of heartbeats. Clients share a lease if they were connected
// with the same options and credentials, as far as these matter to a lease, and if the files of the
// credentials have not been written since.
//
// Any thread.

#ifndef INVOKER_SRC_INVOKE_CONNECT_SHARED_LEASES_H_
#define INVOKER_SRC_INVOKE_CONNECT_SHARED_LEASES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "invoker/client_options.h"
#include "src/invoke/connect/client_lease.h"
#include "src/security/watched_file.h"

namespace invoker {

class SharedLeases {
 public:
  // A worker and the way to it: leases with equal keys are the same to a client.
  struct Key {
    std::vector<std::string> words;
    std::vector<security::FileStamp> files;
  };

  // Those of this process.
  static SharedLeases& Get();

  // INVALID_ARGUMENT for credentials that cannot be used.
  static absl::StatusOr<Key> KeyFor(absl::string_view server, const ClientOptions& options);

  // A lease that has room for another session; nullptr if there is none.
  std::shared_ptr<ClientLease> Find(const Key& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on others may join the lease, as long as a client holds it.
  void Add(Key key, const std::shared_ptr<ClientLease>& lease) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Key key;
    std::weak_ptr<ClientLease> lease;
  };

  absl::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECT_SHARED_LEASES_H_
