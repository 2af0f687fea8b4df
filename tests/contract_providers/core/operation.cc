#include "tests/contract_providers/core/operation.h"

#include <algorithm>
#include <cstring>

namespace contract {
namespace {

// Calls copy(part, bytes done before it, its bytes) for each part of [offset, offset + length).
template <typename Copy>
void ForEachPart(const std::vector<iovec>& iov, uint64_t offset, uint64_t length, Copy copy) {
  uint64_t done = 0;
  for (const iovec& part : iov) {
    if (done == length) return;
    if (offset >= part.iov_len) {
      offset -= part.iov_len;
      continue;
    }
    const uint64_t bytes = std::min<uint64_t>(part.iov_len - offset, length - done);
    copy(static_cast<uint8_t*>(part.iov_base) + offset, done, bytes);
    done += bytes;
    offset = 0;
  }
}

}  // namespace

uint64_t Buffers::size() const {
  uint64_t bytes = 0;
  for (const iovec& part : iov_) bytes += part.iov_len;
  return bytes;
}

void Buffers::CopyOut(uint64_t offset, uint64_t length, void* to) const {
  ForEachPart(iov_, offset, length, [to](const uint8_t* part, uint64_t done, uint64_t bytes) {
    memcpy(static_cast<uint8_t*>(to) + done, part, bytes);
  });
}

void Buffers::CopyIn(uint64_t offset, uint64_t length, const void* from) const {
  ForEachPart(iov_, offset, length, [from](uint8_t* part, uint64_t done, uint64_t bytes) {
    memcpy(part, static_cast<const uint8_t*>(from) + done, bytes);
  });
}

}  // namespace contract
