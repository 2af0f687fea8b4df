// A server's entry in a cluster, for as long as it runs.
//
// A thread of its own keeps the entry alive and publishes the load, once a second at most, and does
// not disturb the server while etcd is away: it registers again when etcd answers.

#ifndef INVOKER_SRC_CLUSTER_REGISTRATION_H_
#define INVOKER_SRC_CLUSTER_REGISTRATION_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "invoker/client_credentials.h"
#include "src/cluster/etcd_client.h"
#include "src/cluster/member.h"

namespace invoker::cluster {

struct RegistrationOptions {
  std::string cluster;  // "etcd://HOST:PORT,HOST:PORT/NAME"; empty: none
  ClusterCredentials credentials;
  // HOST:PORT that clients connect to. Empty: where the server listens, or, if that is every
  // interface, the address of this machine from which etcd is reached.
  std::string advertise;
  std::map<std::string, std::string> labels;
};

class Registration {
 public:
  // INVALID_ARGUMENT for options that cannot be used; errors as EtcdClient::Make. Asks nobody.
  static absl::Status Check(const RegistrationOptions& options);

  // `self` lacks its address and the labels; `listen` is where it listens. `ttl`: how long the
  // entry stays if the server vanishes; etcd has 2 s at least. `load` is called on the thread, and
  // may block for a moment. Does not wait for etcd.
  static absl::StatusOr<std::unique_ptr<Registration>> Start(const RegistrationOptions& options,
                                                             absl::string_view listen, Member self,
                                                             absl::Duration ttl,
                                                             std::function<Load()> load);
  // Leaves, and blocks until the entry has gone, for three seconds at most.
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // Takes the entry out of the cluster. Does not block. Once or more, any thread.
  void Leave();

 private:
  Registration(std::string name, std::unique_ptr<EtcdClient> etcd, Member self, absl::Duration ttl,
               std::function<Load()> load);

  void Run();
  // What there is to do now: registers, keeps the entry alive, publishes the load.
  absl::Status Step();

  const std::string name_;  // the cluster's
  const std::unique_ptr<EtcdClient> etcd_;
  const Member self_;
  const absl::Duration ttl_;
  const std::function<Load()> load_;

  int64_t lease_ = 0;                                 // etcd's; 0: not registered
  std::chrono::steady_clock::time_point kept_alive_;  // when it was last
  std::optional<Load> published_;
  bool failing_ = false;  // and that has been told
  absl::Mutex mutex_;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Notification ended_;  // the thread has
  std::thread thread_;        // last: it uses all of the above
};

}  // namespace invoker::cluster

#endif  // INVOKER_SRC_CLUSTER_REGISTRATION_H_
