// The network between cards: a directory with a Unix-domain socket for every queue pair, at
// GID/QPN. Socket files are seen from every network namespace, abstract socket names are not.
//
// A queue pair listens at its file. A peer connects to send it requests, and gets the answers on
// the same connection. The sockets keep the borders of messages. Connections rather than datagrams,
// because then the kernel tells a requester at once that its peer has died, and a slow peer holds
// up only those that talk to it.

#ifndef INVOKER_TESTS_EFA_DEVICE_SUBNET_H_
#define INVOKER_TESTS_EFA_DEVICE_SUBNET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tests/efa_device/gid.h"

namespace efa_device {

class Subnet {
 public:
  // Null, with errno set, if there is no such directory.
  static std::unique_ptr<Subnet> Open(const std::string& directory);
  ~Subnet();

  // A listening socket with a new number from 1 to `limit`. Numbers go up before they come again,
  // so that a restarted peer has another. A negative errno if there is none.
  int Listen(const Gid& gid, uint32_t limit, uint32_t* qpn);
  // Removes the file of a queue pair.
  void Remove(const Gid& gid, uint32_t qpn);

  // A connection to a queue pair: a non-blocking socket. Otherwise a negative errno: -ENETUNREACH
  // if the GID was never seen, -ECONNREFUSED if no queue pair has this number.
  int Connect(const Gid& gid, uint32_t qpn);

  // Removes the files of owners that were killed.
  void RemoveStale();

  // After fork(): a lock of its own, which the child does not share with the parent.
  void Reopen();

 private:
  Subnet(const std::string& path, int directory, int lock)
      : path_(path), directory_(directory), lock_(lock) {}

  // `flags` besides SOCK_CLOEXEC.
  static int NewSocket(int flags);
  std::string FileName(const Gid& gid, uint32_t qpn) const;
  // Connects to a file below the directory. 0 or a negative errno.
  int ConnectTo(int socket, const std::string& name) const;

  const std::string path_;
  const int directory_;
  int lock_;  // the file "lock", which also holds the last number given
};

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_SUBNET_H_
