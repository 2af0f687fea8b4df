#include "src/invoke/wire/store_request.h"

#include <algorithm>
#include <cstring>

namespace invoker {
namespace {

// A signature has no more.
constexpr uint64_t kMostTypeBytes = 1024;

constexpr size_t kTypeOffset = sizeof(DataId) + sizeof(uint64_t);

constexpr size_t Padded(size_t size) { return (size + 7) / 8 * 8; }

}  // namespace

size_t PutHeadBytes(absl::string_view type) { return kTypeOffset + Padded(type.size()); }

void EncodePutHead(const DataId& id, absl::string_view type, std::byte* to) {
  std::fill_n(to, PutHeadBytes(type), std::byte{0});
  std::copy(id.begin(), id.end(), to);
  const uint64_t size = type.size();
  std::memcpy(to + sizeof(DataId), &size, sizeof(size));
  std::memcpy(to + kTypeOffset, type.data(), type.size());
}

bool DecodePut(absl::Span<const std::byte> request, PutRequest* put) {
  if (request.size() < kTypeOffset) return false;
  std::copy_n(request.begin(), sizeof(DataId), put->id.begin());
  uint64_t type_bytes;
  std::memcpy(&type_bytes, request.data() + sizeof(DataId), sizeof(type_bytes));
  if (type_bytes == 0 || type_bytes > kMostTypeBytes) return false;
  const size_t head = kTypeOffset + Padded(type_bytes);
  if (head > request.size()) return false;
  put->type = {reinterpret_cast<const char*>(request.data()) + kTypeOffset, type_bytes};
  put->value = request.subspan(head);
  return true;
}

}  // namespace invoker
