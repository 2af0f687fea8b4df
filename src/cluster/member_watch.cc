#include "src/cluster/member_watch.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/cluster/cluster_address.h"
#include "src/cluster/etcd_members.h"
#include "src/cluster/file_members.h"

namespace invoker::cluster {
namespace {

// A list stays as it is.
class ListedMembers final : public MemberWatch {
 public:
  explicit ListedMembers(const std::vector<std::string>& servers) {
    SetMembers(MembersOf(servers));
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<MemberWatch>> MemberWatch::Start(
    absl::string_view address, const ClusterCredentials& credentials) {
  if (IsEtcdAddress(address)) return EtcdMembers::Start(address, credentials);
  if (IsFileAddress(address)) return FileMembers::Start(address);
  absl::StatusOr<std::vector<std::string>> servers = ParseServerList(address);
  if (!servers.ok()) return servers.status();
  return std::make_unique<ListedMembers>(*servers);
}

absl::StatusOr<std::vector<Member>> MemberWatch::AwaitMembers(absl::Duration limit) {
  const auto known = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !members_.empty(); };
  absl::MutexLock lock(&mutex_);
  if (mutex_.AwaitWithTimeout(absl::Condition(&known), limit)) return members_;
  if (!failure_.ok()) return failure_;
  return absl::UnavailableError("there is no member");
}

std::vector<Member> MemberWatch::Now(uint64_t* change) const {
  absl::MutexLock lock(&mutex_);
  if (change != nullptr) *change = changes_;
  return members_;
}

void MemberWatch::AwaitChange(uint64_t change, absl::Duration limit) const {
  const auto changed = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return changes_ != change; };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&changed), limit);
}

void MemberWatch::Follow(OnMembers on_members) {
  absl::MutexLock lock(&mutex_);
  on_members_ = std::move(on_members);
  on_members_(members_);
}

void MemberWatch::SetMembers(std::vector<Member> members) {
  absl::MutexLock lock(&mutex_);
  members_ = std::move(members);
  ++changes_;
  failure_ = absl::OkStatus();
  if (on_members_) on_members_(members_);
}

void MemberWatch::SetFailure(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  failure_ = std::move(why);
}

}  // namespace invoker::cluster
