// Requests to etcd's v3 API, with the store's endpoints tried in turn.
//
// Any thread. A request waits for 300 ms for each endpoint while there are others to ask, and for
// two seconds for the last one. Watch has no limit. Where an endpoint does not answer, the
// next one is asked, by this request and by later ones, also of other clients in the process.
// UNAVAILABLE or DEADLINE_EXCEEDED: none of them answers. Errors name the endpoint.

#ifndef INVOKER_SRC_CLUSTER_ETCD_CLIENT_H_
#define INVOKER_SRC_CLUSTER_ETCD_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/client_credentials.h"
#include "src/cluster/cluster_address.h"

// gRPC's headers cost ten seconds a file: those who need more than the names include them.
namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc

namespace invoker::cluster {

class EtcdClient {
 public:
  struct Entry {
    std::string key;
    std::string value;
    int64_t created = 0;  // the store's revision when the key was put first
  };
  struct Listing {
    std::vector<Entry> entries;
    int64_t revision = 0;  // the store's, which they are from
  };
  struct Change {
    Entry entry;
    bool deleted = false;  // then it has a key only
  };

  // INVALID_ARGUMENT, NOT_FOUND or FAILED_PRECONDITION if they cannot be used, or if another
  // machine would be talked to in plaintext without their consent.
  static absl::StatusOr<std::unique_ptr<EtcdClient>> Make(const EtcdAddress& address,
                                                          const ClusterCredentials& credentials);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // All keys that begin with `prefix`, as the endpoint knows them: it may be a moment behind
  // others, and needs no leader.
  absl::StatusOr<Listing> List(absl::string_view prefix);
  // `lease` of 0: none, and the key stays.
  absl::Status Put(absl::string_view key, absl::string_view value, int64_t lease);

  // What is put under the lease is deleted once it has not been kept alive for `ttl`, which etcd
  // may make longer.
  absl::StatusOr<int64_t> GrantLease(absl::Duration ttl);
  // False: it has expired.
  absl::StatusOr<bool> KeepAlive(int64_t lease);
  absl::Status RevokeLease(int64_t lease);

  // Calls on_changes with what happens to keys that begin with `prefix`, from `revision` on, in its
  // order. Blocks until the endpoint fails, or has lost its leader, or Stop, and says which.
  // OUT_OF_RANGE: etcd has forgotten the revision.
  absl::Status Watch(absl::string_view prefix, int64_t revision,
                     const std::function<void(std::vector<Change>)>& on_changes);

  // Ends requests that are under way, and those to come, with CANCELLED.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Request;
  struct Endpoint {
    std::string name;  // HOST:PORT
    std::shared_ptr<grpc::Channel> channel;
  };

  EtcdClient(std::string all_endpoints, std::string user, std::string password);

  // Runs ask(channel, context) until an endpoint answers it.
  template <typename Ask>
  absl::Status Run(absl::string_view what, const Ask& ask) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Authenticate(const Endpoint& endpoint, absl::Duration limit)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Explain(absl::string_view what, const Endpoint& endpoint,
                       const grpc::Status& status) const;

  const std::string all_endpoints_;  // HOST:PORT,HOST:PORT
  const std::string user_;           // empty: etcd asks for none
  const std::string password_;
  std::vector<Endpoint> endpoints_;
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  size_t current_ ABSL_GUARDED_BY(mutex_);
  std::string token_ ABSL_GUARDED_BY(mutex_);  // etcd's, for the user
  absl::flat_hash_set<grpc::ClientContext*> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker::cluster

#endif  // INVOKER_SRC_CLUSTER_ETCD_CLIENT_H_
