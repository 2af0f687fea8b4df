// Files that the security of a server or a client depends on: read whole, known by their state on
// disk, and refused if they are secrets that others can read.
//
// Free of state but for the file system. Any thread.

#ifndef INVOKER_SRC_SECURITY_WATCHED_FILE_H_
#define INVOKER_SRC_SECURITY_WATCHED_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace invoker::security {

// Keys, certificates, tokens and policies are smaller.
inline constexpr size_t kMaxFileBytes = 4 << 20;

// What a file is known by without being read. Equal stamps: nothing has been written since. A
// file that is replaced by rename, which is how it should be done, always has another one.
struct FileStamp {
  bool there = false;
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  friend bool operator==(const FileStamp& a, const FileStamp& b) {
    return a.there == b.there && a.device == b.device && a.inode == b.inode && a.bytes == b.bytes &&
           a.modified_ns == b.modified_ns && a.changed_ns == b.changed_ns;
  }
  friend bool operator!=(const FileStamp& a, const FileStamp& b) { return !(a == b); }
};

FileStamp StampOf(const std::string& path);

enum class Secrecy {
  kPublic,  // a certificate, a policy
  kSecret,  // a private key, a token: FAILED_PRECONDITION if everybody may read or write it, or its
            // group may write it
};

// The whole of a regular file. `what` it is goes into errors ("the token file"); what is in it
// never does. UNAVAILABLE: the reason is not the file, such as a process without descriptors, and
// the same file may do the next time (WorthAnotherTry).
absl::StatusOr<std::string> ReadWholeFile(const std::string& what, const std::string& path,
                                          Secrecy secrecy);

// About reading a file, or files: whether it may end otherwise though nothing has been written
// since. A reader that has seen that a file is another keeps the stamp of the one before until it
// has been read.
inline bool WorthAnotherTry(const absl::Status& status) { return absl::IsUnavailable(status); }

}  // namespace invoker::security

#endif  // INVOKER_SRC_SECURITY_WATCHED_FILE_H_
