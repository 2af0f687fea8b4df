// The members that are registered in etcd.

#ifndef INVOKER_SRC_CLUSTER_ETCD_MEMBERS_H_
#define INVOKER_SRC_CLUSTER_ETCD_MEMBERS_H_

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "src/cluster/etcd_client.h"
#include "src/cluster/member_watch.h"

namespace invoker::cluster {

// Lists them, then watches for changes, and does both again whenever the watch has ended. While
// etcd does not answer, the members stay as they were.
class EtcdMembers final : public MemberWatch {
 public:
  static absl::StatusOr<std::unique_ptr<MemberWatch>> Start(absl::string_view address,
                                                            const ClusterCredentials& credentials);
  ~EtcdMembers() override;

  absl::StatusOr<std::map<uint64_t, Load>> Loads() override;

 private:
  EtcdMembers(std::string name, std::unique_ptr<EtcdClient> etcd);

  void Run();
  // Returns when the watch has ended, or why there was none.
  absl::Status ListAndWatch();
  void Put(const EtcdClient::Entry& entry);
  void Tell();

  const std::string name_;  // the cluster's
  const std::string prefix_;
  const std::unique_ptr<EtcdClient> etcd_;
  std::map<std::string, Member> members_;  // by key
  bool failing_ = false;                   // and that has been told
  absl::Notification stop_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace invoker::cluster

#endif  // INVOKER_SRC_CLUSTER_ETCD_MEMBERS_H_
