#include "src/invoke/group/leases/group_leases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/messages/usage_sum.h"
#include "src/invoke/group/each_of.h"

namespace invoker {
namespace {

absl::Status At(const Lease& lease, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(lease.server(), ": ", status.message()));
}

}  // namespace

GroupLeases::Leases GroupLeases::List() const {
  absl::MutexLock lock(&mutex_);
  return leases_;
}

absl::Status GroupLeases::UploadCode(absl::string_view code, CodeKind kind, absl::string_view name,
                                     absl::Duration timeout) {
  absl::MutexLock lock(&code_mutex_);
  const Leases leases = List();
  const auto uploaded = EachOf<bool>(leases.size(), [&](size_t i) -> absl::StatusOr<bool> {
    absl::Status status = leases[i]->UploadCode(code, kind, name, timeout);
    if (!status.ok()) return status;
    return true;
  });
  for (size_t i = 0; i < leases.size(); ++i) {
    // With one lease the error needs no name.
    if (!uploaded[i].ok()) {
      return leases.size() == 1 ? uploaded[i].status() : At(*leases[i], uploaded[i].status());
    }
  }
  code_.push_back({std::string(code), kind, std::string(name)});
  return absl::OkStatus();
}

absl::Status GroupLeases::Replace(const Leases& lost, const std::shared_ptr<Lease>& added,
                                  absl::Duration timeout) {
  absl::MutexLock code_lock(&code_mutex_);
  for (const Code& each : code_) {
    absl::Status status = added->UploadCode(each.code, each.kind, each.name, timeout);
    if (!status.ok()) return At(*added, status);
  }
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Lease>& each : lost) EraseLocked(each);
  leases_.push_back(added);
  return absl::OkStatus();
}

void GroupLeases::Remove(const std::shared_ptr<Lease>& lease) {
  absl::MutexLock lock(&mutex_);
  EraseLocked(lease);
}

void GroupLeases::EraseLocked(const std::shared_ptr<Lease>& lease) {
  leases_.erase(std::remove(leases_.begin(), leases_.end(), lease), leases_.end());
}

std::vector<std::string> GroupLeases::FunctionNames() const {
  std::vector<std::string> common;
  bool first = true;
  for (const std::shared_ptr<Lease>& lease : List()) {
    std::vector<std::string> names = lease->FunctionNames();
    if (std::exchange(first, false)) {
      common = std::move(names);
      continue;
    }
    common.erase(std::remove_if(common.begin(), common.end(),
                                [&names](const std::string& name) {
                                  return std::find(names.begin(), names.end(), name) == names.end();
                                }),
                 common.end());
  }
  return common;
}

absl::StatusOr<ResourceUsage> GroupLeases::Usage() const {
  const Leases leases = List();
  const auto each =
      EachOf<ResourceUsage>(leases.size(), [&](size_t i) { return leases[i]->Usage(); });
  ResourceUsage all;
  for (size_t i = 0; i < leases.size(); ++i) {
    if (!each[i].ok()) {
      return leases.size() == 1 ? each[i].status() : At(*leases[i], each[i].status());
    }
    AddUsage(*each[i], &all);
  }
  return all;
}

std::vector<absl::StatusOr<LeaseEnd>> GroupLeases::Release() {
  const Leases leases = List();
  std::vector<absl::StatusOr<LeaseEnd>> ends =
      EachOf<LeaseEnd>(leases.size(), [&](size_t i) { return leases[i]->Release(); });
  for (size_t i = 0; i < leases.size(); ++i) {
    if (!ends[i].ok()) ends[i] = At(*leases[i], ends[i].status());
  }
  return ends;
}

absl::StatusOr<LeaseEnd> GroupLeases::InOne(const std::vector<absl::StatusOr<LeaseEnd>>& ends) {
  absl::StatusOr<LeaseEnd> all = absl::FailedPreconditionError("the group has no leases");
  for (const absl::StatusOr<LeaseEnd>& end : ends) {
    if (!end.ok()) {
      if (!all.ok()) all = end.status();
    } else if (!all.ok()) {
      all = *end;
    } else {
      AddUsage(end->usage, &all->usage);
      if (end->cause == LeaseEndCause::kReleased) all->cause = end->cause;
      if (end->cause == LeaseEndCause::kReleased) all->reason = end->reason;
    }
  }
  return all;
}

}  // namespace invoker
