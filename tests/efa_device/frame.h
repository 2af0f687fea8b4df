// The wire format: one frame is one message of a socket between two queue pairs.
//
// A requester numbers its packets. The responder answers each once, with a status, and a read with
// its data. Both ends run on one machine, so integers are in its byte order.

#ifndef INVOKER_TESTS_EFA_DEVICE_FRAME_H_
#define INVOKER_TESTS_EFA_DEVICE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/efa_device/gid.h"
#include "tests/efa_device/status.h"

namespace efa_device {

enum class FrameKind : uint8_t { kSend = 1, kRead = 2, kWrite = 3, kAnswer = 4 };

// The longest payload of a frame. A longer read or write is cut into several packets.
constexpr size_t kMaxPayload = 32768;

struct Frame {
  FrameKind kind = FrameKind::kSend;
  Status status = Status::kOk;  // an answer's
  bool has_immediate = false;
  bool unreliable = false;  // from a UD queue pair: no answer is expected
  Gid source_gid = {};
  uint32_t source_qpn = 0;
  uint32_t qkey = 0;
  uint32_t immediate = 0;  // the verbs user's
  uint64_t number = 0;     // the packet's; an answer repeats it
  uint32_t rkey = 0;       // a read's or write's
  uint64_t address = 0;    // in the responder
  uint32_t length = 0;     // bytes to read
  uint64_t total = 0;      // bytes of the whole write that an immediate ends
  std::string payload;
};

// The answer of queue pair `qpn` of `gid` to a request. Its status is kOk until the caller changes
// it.
Frame AnswerTo(const Frame& request, const Gid& gid, uint32_t qpn);

std::string Encode(const Frame& frame);

// False if the bytes are no frame.
bool Decode(const void* bytes, size_t size, Frame* frame);

// The longest encoded frame.
size_t MaxFrameBytes();

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_FRAME_H_
