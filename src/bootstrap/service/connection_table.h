// The connections that a server's port has, against the most that it may have: in total, and from
// one source, so that one peer alone cannot keep the others out.
//
// The user of a connection closes it without a word: an entry is a descriptor and the inode of its
// socket, and is looked at again when there is no room. Not safe in threads.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_CONNECTION_TABLE_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_CONNECTION_TABLE_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace invoker::bootstrap {

struct ConnectionLimits {
  // 0: half of the descriptors that this process may have (RLIMIT_NOFILE), and 10,000 at most. The
  // other half is for sessions, executors and files.
  uint32_t total = 0;
  // 0: half of the total.
  uint32_t per_source = 0;
};

// With numbers for what is 0. A source has no more than all together.
ConnectionLimits ResolveLimits(const ConnectionLimits& asked);

// What counts as one source: an IPv4 address, also one that is mapped into IPv6, or the first 64
// bits of an IPv6 address, of which one host has as many as it likes.
std::string SourceOf(const sockaddr_storage& address);

class ConnectionTable {
 public:
  enum class Verdict { kAdmitted, kTotalReached, kSourceReached };

  explicit ConnectionTable(const ConnectionLimits& limits) : limits_(limits) {}

  // kAdmitted: counted from now on, until somebody has closed `fd`. Else it is the caller's to
  // close.
  Verdict Admit(int fd, const std::string& source, absl::Time now);

 private:
  struct Connection {
    int fd;
    dev_t device;
    ino_t inode;
  };
  struct Source {
    std::vector<Connection> connections;
    absl::Time swept = absl::InfinitePast();
  };

  // Forgets those that have been closed; a source without any can be forgotten itself.
  void Sweep(Source* source);
  void SweepAll();

  const ConnectionLimits limits_;
  absl::flat_hash_map<std::string, Source> sources_;
  uint32_t count_ = 0;
  absl::Time swept_ = absl::InfinitePast();
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_CONNECTION_TABLE_H_
