#include "src/bootstrap/service/connection_table.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>

namespace invoker::bootstrap {
namespace {

constexpr uint32_t kMostByDefault = 10'000;
// Looking at every connection takes a microsecond for each: who is turned away again and again must
// not make the server do it every time.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(10);

bool StillThere(int fd, dev_t device, ino_t inode) {
  struct stat found;
  return fstat(fd, &found) == 0 && found.st_dev == device && found.st_ino == inode;
}

}  // namespace

ConnectionLimits ResolveLimits(const ConnectionLimits& asked) {
  ConnectionLimits limits = asked;
  if (limits.total == 0) {
    rlimit files{};
    const bool known = getrlimit(RLIMIT_NOFILE, &files) == 0;
    const rlim_t half = known ? files.rlim_cur / 2 : kMostByDefault;
    limits.total = static_cast<uint32_t>(std::clamp<rlim_t>(half, 1, kMostByDefault));
  }
  if (limits.per_source == 0) limits.per_source = std::max(limits.total / 2, 1u);
  limits.per_source = std::min(limits.per_source, limits.total);
  return limits;
}

std::string SourceOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    return std::string(reinterpret_cast<const char*>(&four.sin_addr), sizeof(four.sin_addr));
  }
  if (address.ss_family != AF_INET6) return std::string();
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  const char* bytes = reinterpret_cast<const char*>(six.s6_addr);
  if (IN6_IS_ADDR_V4MAPPED(&six)) return std::string(bytes + 12, 4);
  return std::string(bytes, 8);
}

void ConnectionTable::Sweep(Source* source) {
  auto& all = source->connections;
  const auto gone = std::remove_if(all.begin(), all.end(), [](const Connection& each) {
    return !StillThere(each.fd, each.device, each.inode);
  });
  count_ -= static_cast<uint32_t>(all.end() - gone);
  all.erase(gone, all.end());
}

void ConnectionTable::SweepAll() {
  for (auto each = sources_.begin(); each != sources_.end();) {
    Sweep(&each->second);
    if (each->second.connections.empty()) {
      sources_.erase(each++);
    } else {
      ++each;
    }
  }
}

ConnectionTable::Verdict ConnectionTable::Admit(int fd, const std::string& source, absl::Time now) {
  struct stat own;
  if (fstat(fd, &own) != 0) return Verdict::kTotalReached;
  if (count_ >= limits_.total && now - swept_ >= kSweepInterval) {
    swept_ = now;
    SweepAll();
  }
  if (count_ >= limits_.total) return Verdict::kTotalReached;
  Source& mine = sources_[source];
  if (mine.connections.size() >= limits_.per_source && now - mine.swept >= kSweepInterval) {
    mine.swept = now;
    Sweep(&mine);
  }
  if (mine.connections.size() >= limits_.per_source) return Verdict::kSourceReached;
  mine.connections.push_back({fd, own.st_dev, own.st_ino});
  ++count_;
  return Verdict::kAdmitted;
}

}  // namespace invoker::bootstrap
