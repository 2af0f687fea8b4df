#include "src/cluster/etcd_members.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/base/start_thread.h"
#include "src/cluster/cluster_address.h"
#include "src/log/log.h"

namespace invoker::cluster {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);

}  // namespace

absl::StatusOr<std::unique_ptr<MemberWatch>> EtcdMembers::Start(
    absl::string_view address, const ClusterCredentials& credentials) {
  absl::StatusOr<EtcdAddress> parsed = ParseEtcdAddress(address);
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<std::unique_ptr<EtcdClient>> etcd = EtcdClient::Make(*parsed, credentials);
  if (!etcd.ok()) return etcd.status();
  std::unique_ptr<EtcdMembers> watch(new EtcdMembers(parsed->name, *std::move(etcd)));
  EtcdMembers* const raw = watch.get();
  absl::Status status = transport::StartThread(&raw->thread_, [raw] { raw->Run(); });
  if (!status.ok()) return status;
  return watch;
}

EtcdMembers::EtcdMembers(std::string name, std::unique_ptr<EtcdClient> etcd)
    : name_(std::move(name)), prefix_(MembersPrefix(name_)), etcd_(std::move(etcd)) {}

EtcdMembers::~EtcdMembers() {
  stop_.Notify();
  etcd_->Stop();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::map<uint64_t, Load>> EtcdMembers::Loads() {
  const std::string prefix = LoadsPrefix(name_);
  const absl::StatusOr<EtcdClient::Listing> listing = etcd_->List(prefix);
  if (!listing.ok()) return listing.status();
  std::map<uint64_t, Load> loads;
  for (const EtcdClient::Entry& entry : listing->entries) {
    uint64_t incarnation = 0;
    const absl::StatusOr<Load> load = ParseLoad(entry.value);
    const bool known =
        absl::SimpleHexAtoi(absl::string_view(entry.key).substr(prefix.size()), &incarnation);
    if (known && load.ok()) loads[incarnation] = *load;
  }
  return loads;
}

void EtcdMembers::Run() {
  absl::Duration pause = kFirstPause;
  while (!stop_.HasBeenNotified()) {
    const absl::Status status = ListAndWatch();
    if (status.ok()) {
      pause = kFirstPause;
    } else if (!stop_.HasBeenNotified()) {
      if (!std::exchange(failing_, true)) {
        LogWarning(absl::StrCat("cluster ", name_, ": ", status.message(),
                                "; the members that are known stay in use"));
      }
      SetFailure(
          absl::Status(status.code(), absl::StrCat("cluster ", name_, ": ", status.message())));
    }
    if (stop_.WaitForNotificationWithTimeout(pause)) return;
    pause = std::min(2 * pause, kLongestPause);
  }
}

absl::Status EtcdMembers::ListAndWatch() {
  absl::StatusOr<EtcdClient::Listing> listing = etcd_->List(prefix_);
  if (!listing.ok()) return listing.status();
  if (std::exchange(failing_, false))
    LogInfo(absl::StrCat("cluster ", name_, ": etcd answers again"));
  members_.clear();
  for (const EtcdClient::Entry& entry : listing->entries) Put(entry);
  Tell();
  // However it ends, the list says what has been missed.
  (void)etcd_->Watch(prefix_, listing->revision + 1,
                     [this](std::vector<EtcdClient::Change> changes) {
                       for (const EtcdClient::Change& change : changes) {
                         if (change.deleted) {
                           members_.erase(change.entry.key);
                         } else {
                           Put(change.entry);
                         }
                       }
                       Tell();
                     });
  return absl::OkStatus();
}

void EtcdMembers::Put(const EtcdClient::Entry& entry) {
  absl::StatusOr<Member> member = ParseMember(entry.value);
  if (!member.ok()) {
    LogWarning(absl::StrCat("cluster ", name_, ": ", entry.key,
                            " is left out: ", member.status().message()));
    members_.erase(entry.key);
    return;
  }
  member->epoch = entry.created;
  members_[entry.key] = *std::move(member);
}

// Where a server has been restarted, the entry of its earlier run may still be there.
void EtcdMembers::Tell() {
  std::map<std::string, const Member*> newest;  // by address
  for (const auto& [key, member] : members_) {
    const Member*& known = newest[member.server];
    if (known == nullptr || known->epoch < member.epoch) known = &member;
  }
  std::vector<Member> members;
  for (const auto& [server, member] : newest) members.push_back(*member);
  SetMembers(std::move(members));
}

}  // namespace invoker::cluster
