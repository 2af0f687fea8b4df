#include "src/lease/capacity.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace invoker {

std::string Describe(const Resources& resources) {
  return absl::StrCat(resources.cores, resources.cores == 1 ? " core" : " cores", " and ",
                      resources.memory_bytes, " bytes of memory");
}

absl::Status LeaseCapacity::CheckPossible(const Resources& wanted) const {
  if (wanted.cores <= total_.cores && wanted.memory_bytes <= total_.memory_bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("the lease asks for ", Describe(wanted),
                                                 ", but this worker leases ", Describe(total_),
                                                 " in all"));
}

bool LeaseCapacity::TryTake(uint64_t lease, const Resources& wanted) {
  if (!line_.empty() || !Fits(wanted)) return false;
  Take(lease, wanted);
  return true;
}

absl::Status LeaseCapacity::Enqueue(uint64_t lease, const Resources& wanted) {
  if (line_.size() >= max_waiting_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there is no room for the lease, and no place in line: ", line_.size(),
                     " leases wait already, which is the most that this worker lets wait; try "
                     "again later, or ask another worker"));
  }
  line_.emplace_back(lease, wanted);
  return absl::OkStatus();
}

void LeaseCapacity::Leave(uint64_t lease) {
  if (const auto taken = taken_.find(lease); taken != taken_.end()) {
    free_.cores += taken->second.cores;
    free_.memory_bytes += taken->second.memory_bytes;
    taken_.erase(taken);
    return;
  }
  const auto place = std::find_if(line_.begin(), line_.end(),
                                  [lease](const auto& one) { return one.first == lease; });
  if (place != line_.end()) line_.erase(place);
}

std::vector<uint64_t> LeaseCapacity::Admit() {
  std::vector<uint64_t> admitted;
  while (!line_.empty() && Fits(line_.front().second)) {
    Take(line_.front().first, line_.front().second);
    admitted.push_back(line_.front().first);
    line_.pop_front();
  }
  return admitted;
}

std::vector<uint64_t> LeaseCapacity::Waiting() const {
  std::vector<uint64_t> leases;
  leases.reserve(line_.size());
  for (const auto& [lease, wanted] : line_) leases.push_back(lease);
  return leases;
}

bool LeaseCapacity::Fits(const Resources& wanted) const {
  return wanted.cores <= free_.cores && wanted.memory_bytes <= free_.memory_bytes;
}

void LeaseCapacity::Take(uint64_t lease, const Resources& wanted) {
  free_.cores -= wanted.cores;
  free_.memory_bytes -= wanted.memory_bytes;
  taken_[lease] = wanted;
}

}  // namespace invoker
