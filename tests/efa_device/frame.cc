#include "tests/efa_device/frame.h"

#include <cstring>

namespace efa_device {
namespace {

constexpr uint32_t kMagic = 0x45464131;  // changes with the format

constexpr uint8_t kHasImmediate = 1;
constexpr uint8_t kUnreliable = 2;

// Ordered so that there is no padding.
struct Header {
  uint32_t magic;
  uint8_t kind;
  uint8_t status;
  uint8_t flags;
  uint8_t zero;
  uint8_t source_gid[16];
  uint32_t source_qpn;
  uint32_t qkey;
  uint32_t immediate;
  uint32_t rkey;
  uint64_t number;
  uint64_t address;
  uint64_t length;
  uint64_t total;
};
static_assert(sizeof(Header) == 72, "the header has no padding");

}  // namespace

Frame AnswerTo(const Frame& request, const Gid& gid, uint32_t qpn) {
  Frame answer;
  answer.kind = FrameKind::kAnswer;
  answer.number = request.number;
  answer.source_gid = gid;
  answer.source_qpn = qpn;
  return answer;
}

std::string Encode(const Frame& frame) {
  Header header = {};
  header.magic = kMagic;
  header.kind = static_cast<uint8_t>(frame.kind);
  header.status = static_cast<uint8_t>(frame.status);
  header.flags = (frame.has_immediate ? kHasImmediate : 0) | (frame.unreliable ? kUnreliable : 0);
  memcpy(header.source_gid, frame.source_gid.data(), frame.source_gid.size());
  header.source_qpn = frame.source_qpn;
  header.qkey = frame.qkey;
  header.immediate = frame.immediate;
  header.rkey = frame.rkey;
  header.length = frame.length;
  header.number = frame.number;
  header.address = frame.address;
  header.total = frame.total;
  std::string bytes;
  bytes.reserve(sizeof(header) + frame.payload.size());
  bytes.append(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(frame.payload);
  return bytes;
}

bool Decode(const void* bytes, size_t size, Frame* frame) {
  Header header;
  if (size < sizeof(header) || size > MaxFrameBytes()) return false;
  memcpy(&header, bytes, sizeof(header));
  if (header.magic != kMagic || header.zero != 0) return false;
  if (header.kind < static_cast<uint8_t>(FrameKind::kSend)) return false;
  if (header.kind > static_cast<uint8_t>(FrameKind::kAnswer)) return false;
  if (header.status > static_cast<uint8_t>(Status::kUnresponsiveRemote)) return false;
  if (header.flags > (kHasImmediate | kUnreliable)) return false;
  if (header.length > kMaxPayload) return false;
  frame->kind = static_cast<FrameKind>(header.kind);
  frame->status = static_cast<Status>(header.status);
  frame->has_immediate = (header.flags & kHasImmediate) != 0;
  frame->unreliable = (header.flags & kUnreliable) != 0;
  memcpy(frame->source_gid.data(), header.source_gid, sizeof(header.source_gid));
  frame->source_qpn = header.source_qpn;
  frame->qkey = header.qkey;
  frame->immediate = header.immediate;
  frame->rkey = header.rkey;
  frame->length = static_cast<uint32_t>(header.length);
  frame->number = header.number;
  frame->address = header.address;
  frame->total = header.total;
  frame->payload.assign(static_cast<const char*>(bytes) + sizeof(header), size - sizeof(header));
  return true;
}

size_t MaxFrameBytes() { return sizeof(Header) + kMaxPayload; }

}  // namespace efa_device
