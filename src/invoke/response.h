// What a call returns.

#ifndef INVOKER_SRC_INVOKE_RESPONSE_H_
#define INVOKER_SRC_INVOKE_RESPONSE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace invoker {

class CallDriver;

using Bytes = absl::Span<const std::byte>;

// A run of cells that somebody holds. Empty by default.
struct HeldCells {
  uint32_t first = 0;
  uint32_t cells = 0;
};

// What a function returned: a view into the response window, without a copy. Holds its cells until
// it is destroyed, and they are what further calls need: do not hoard responses. May outlive the
// client.
class Response {
 public:
  Response(Response&& other) noexcept;
  Response& operator=(Response&& other) noexcept;
  ~Response();

  Bytes data() const { return data_; }
  size_t size() const { return data_.size(); }
  absl::string_view text() const {
    return {reinterpret_cast<const char*>(data_.data()), data_.size()};
  }

 private:
  friend class CallDriver;
  Response(std::shared_ptr<CallDriver> driver, HeldCells cells, Bytes data);

  std::shared_ptr<CallDriver> driver_;  // nullptr once moved from
  HeldCells cells_;
  Bytes data_;
};

// Gets the result of an asynchronous call.
using CallDone = absl::AnyInvocable<void(absl::StatusOr<Response>)>;

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_RESPONSE_H_
