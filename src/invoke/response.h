// What a call returns.

#ifndef INVOKER_SRC_INVOKE_RESPONSE_H_
#define INVOKER_SRC_INVOKE_RESPONSE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "invoker/export.h"

namespace invoker {

class CallDriver;

using Bytes = absl::Span<const std::byte>;

// A run of cells that somebody holds. Empty by default.
struct HeldCells {
  uint32_t first = 0;
  uint32_t cells = 0;
};

// For a Response that goes: gives its cells back to the driver that made it.
INVOKER_EXPORT void ReleaseResponse(CallDriver* driver, HeldCells cells);

// The number of the session that this driver drives.
INVOKER_EXPORT uint64_t SessionOf(const CallDriver* driver);

// What a function returned: a view into the response window, without a copy, or of the memory that
// CallOptions::output names. In the response window it holds cells until it is destroyed, and
// further calls need them: do not hoard responses. May outlive the client.
class Response {
 public:
  Response(Response&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        cells_(other.cells_),
        data_(std::exchange(other.data_, Bytes())) {}
  Response& operator=(Response&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(cells_, other.cells_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Response() {
    if (driver_ != nullptr) ReleaseResponse(driver_, cells_);
  }

  Bytes data() const { return data_; }
  size_t size() const { return data_.size(); }
  absl::string_view text() const {
    return {reinterpret_cast<const char*>(data_.data()), data_.size()};
  }
  // The number of the session that it came in; no other session of this process has it, before or
  // after.
  uint64_t session() const {
    if (driver_ != nullptr) return SessionOf(driver_);
    return uint64_t{cells_.first} << 32 | cells_.cells;
  }

 private:
  friend class CallDriver;
  friend class MemoryCall;
  Response(CallDriver* driver, HeldCells cells, Bytes data)
      : driver_(driver), cells_(cells), data_(data) {}
  // In memory that CallOptions::output names.
  Response(uint64_t session, Bytes data)
      : driver_(nullptr),
        cells_{static_cast<uint32_t>(session >> 32), static_cast<uint32_t>(session)},
        data_(data) {}

  // Lives as long as any response in its window. nullptr: there is nothing to release, and `cells_`
  // has the two halves of the session's number.
  CallDriver* driver_;
  HeldCells cells_;
  Bytes data_;
};

// Gets the result of an asynchronous call. Must not throw.
using CallDone = absl::AnyInvocable<void(absl::StatusOr<Response>)>;

// Responses that a client has dropped, by reason. None is fatal: somebody else may have sent them.
struct ResponseDropCounters {
  uint64_t unknown_session = 0;  // a doorbell of another session, or no doorbell of a response
  uint64_t outside_window = 0;
  uint64_t not_a_header = 0;
  uint64_t no_such_call = 0;  // none is under way whose response goes there
  uint64_t wrong_epoch = 0;
  uint64_t wrong_sequence = 0;  // another call's than the one whose place it is
  uint64_t too_long = 0;
  uint64_t bad_tag = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_RESPONSE_H_
