// A member of a cluster, and how busy it is, as etcd keeps them: JSON, for people too.

#ifndef INVOKER_SRC_CLUSTER_MEMBER_H_
#define INVOKER_SRC_CLUSTER_MEMBER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker::cluster {

struct Member {
  std::string server;  // HOST:PORT of its bootstrap
  // Another one each time that the server is started; 0: any will do, for servers from a list.
  uint64_t incarnation = 0;
  // Grows with each registration in the cluster; 0: from a list.
  int64_t epoch = 0;
  std::string version;
  std::vector<std::string> fabrics;  // libfabric's names, the best first
  uint32_t executors = 0;            // shared ones
  uint32_t cores = 0;                // to lease
  uint64_t memory_bytes = 0;         // to lease
  bool python = false;
  std::vector<std::string> functions;
  std::map<std::string, std::string> labels;
};

struct Load {
  uint32_t free_cores = 0;
  uint64_t free_memory_bytes = 0;
  uint32_t waiting = 0;  // leases that wait in line

  friend bool operator==(const Load& a, const Load& b) {
    return a.free_cores == b.free_cores && a.free_memory_bytes == b.free_memory_bytes &&
           a.waiting == b.waiting;
  }
};

// All but the epoch, which etcd gives.
std::string ToJson(const Member& member);
std::string ToJson(const Load& load);
// INVALID_ARGUMENT for what is none, such as a member without a server or an incarnation.
absl::StatusOr<Member> ParseMember(absl::string_view json);
absl::StatusOr<Load> ParseLoad(absl::string_view json);

// Servers of which nothing but the address is known.
std::vector<Member> MembersOf(const std::vector<std::string>& servers);

// The keys' beginnings for a cluster; the incarnation follows, as 16 hexadecimal digits.
std::string MembersPrefix(absl::string_view cluster);
std::string LoadsPrefix(absl::string_view cluster);
std::string FormatIncarnation(uint64_t incarnation);

}  // namespace invoker::cluster

#endif  // INVOKER_SRC_CLUSTER_MEMBER_H_
