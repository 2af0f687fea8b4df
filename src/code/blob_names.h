// What the files of a BlobCache's directory are called, and how they count. For its own sources.

#ifndef INVOKER_SRC_CODE_BLOB_NAMES_H_
#define INVOKER_SRC_CODE_BLOB_NAMES_H_

#include <sys/types.h>

#include <cstdint>

namespace invoker {

inline constexpr char kLockName[] = "lock";
inline constexpr char kIncomingPrefix[] = "incoming-";

// Opening an open file anew, as /proc/self/fd does, needs the right to read it.
inline constexpr mode_t kFileMode = 0444;

// What a file takes of the capacity: whole disk blocks, so that many small files count as well.
inline uint64_t RoomFor(uint64_t size) {
  constexpr uint64_t kBlock = 4096;
  return (size + kBlock - 1) / kBlock * kBlock;
}

}  // namespace invoker

#endif  // INVOKER_SRC_CODE_BLOB_NAMES_H_
