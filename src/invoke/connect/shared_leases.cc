#include "src/invoke/connect/shared_leases.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/security/client_credentials.h"

namespace invoker {

SharedLeases& SharedLeases::Get() {
  static auto* const leases = new SharedLeases();
  return *leases;
}

absl::StatusOr<SharedLeases::Key> SharedLeases::KeyFor(absl::string_view server,
                                                       const ClientOptions& options) {
  const absl::StatusOr<ClientCredentials> shown = security::Complete(options.credentials);
  if (!shown.ok()) return shown.status();
  Key key;
  // A process that has been forked has other connections than its parent.
  key.words = {std::string(server),
               absl::StrCat(getpid()),
               options.provider,
               options.fabric_address,
               absl::StrCat(options.worker_in_this_process),
               absl::FormatDuration(options.peer_timeout),
               absl::StrCat(shown->plaintext),
               shown->tls_server_name};
  for (const std::string& file :
       {shown->tls_ca, shown->tls_cert, shown->tls_key, shown->token_file}) {
    key.words.push_back(file);
    key.files.push_back(file.empty() ? security::FileStamp() : security::StampOf(file));
  }
  return key;
}

std::shared_ptr<ClientLease> SharedLeases::Find(const Key& key) {
  // Let go of after the lock: the last holder of a lease ends it.
  std::vector<std::shared_ptr<ClientLease>> full;
  absl::MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    if (entry.key.words != key.words || entry.key.files != key.files) continue;
    std::shared_ptr<ClientLease> lease = entry.lease.lock();
    if (lease == nullptr) continue;
    if (lease->HasRoom()) return lease;
    full.push_back(std::move(lease));
  }
  return nullptr;
}

void SharedLeases::Add(Key key, const std::shared_ptr<ClientLease>& lease) {
  absl::MutexLock lock(&mutex_);
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [](const Entry& entry) { return entry.lease.expired(); }),
                 entries_.end());
  entries_.push_back({std::move(key), lease});
}

}  // namespace invoker
