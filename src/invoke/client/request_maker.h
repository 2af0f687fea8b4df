// Makes the session's request of a call, and checks what the caller has asked for.

#ifndef INVOKER_SRC_INVOKE_CLIENT_REQUEST_MAKER_H_
#define INVOKER_SRC_INVOKE_CLIENT_REQUEST_MAKER_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "invoker/client.h"
#include "invoker/client_options.h"
#include "invoker/response.h"
#include "src/invoke/session/client_session.h"
#include "src/invoke/session/driver/call_driver.h"
#include "src/invoke/wire/wire.h"

namespace invoker {

absl::Status TooLargeForWindow(absl::string_view what, uint64_t bytes,
                               const WindowGeometry& geometry);
class RequestMaker {
 public:
  // Whether the call needs memory outside the session's windows, or has options that a MemoryCall
  // has to judge.
  ABSL_ATTRIBUTE_ALWAYS_INLINE static bool NeedsMemory(const CallDriver& driver,
                                                       const CallInput& input,
                                                       const CallOptions& options) {
    const uint32_t special = options.retry | static_cast<uint32_t>(options.output.kind_);
    // A buffer lies in the request window, so it is never too large.
    if (input.kind_ == CallInput::Kind::kBuffer) return special != 0;
    return input.size() > driver.geometry().MaxPayload() || special != 0 ||
           input.kind_ == CallInput::Kind::kWindow;
  }

  // For a call that does not NeedsMemory, or whose memory lies in the session's windows after all.
  // `input` outlives the request.
  ABSL_ATTRIBUTE_ALWAYS_INLINE static absl::Status Make(const CallDriver& driver, uint16_t function,
                                                        const CallInput& input,
                                                        const CallOptions& options,
                                                        ClientSession::Request* request) {
    if (input.kind_ == CallInput::Kind::kBuffer) {
      HeldCells cells;
      bool* busy = nullptr;
      const Buffer& buffer = input.buffer();
      const bool is_ours = buffer.driver_.get() == &driver;
      if (ABSL_PREDICT_FALSE(!is_ours || input.size() > buffer.size())) {
        return WrongBuffer(is_ours, input.size(), buffer.size());
      }
      // Behind a shorter request, the buffer's bytes are the caller's and no place for a tag.
      if (ABSL_PREDICT_TRUE(!driver.geometry().tagged()) || input.size() == buffer.size()) {
        cells = buffer.cells_;
        busy = buffer.busy_.get();
      }
      return Make(driver, function, input.bytes_, cells, busy, options, request);
    }
    absl::Status status =
        Make(driver, function, input.bytes_, HeldCells(), nullptr, options, request);
    if (input.kind_ == CallInput::Kind::kWritten) request->writer = &input.writer_;
    return status;
  }

  // With `cells`, the input lies there already.
  ABSL_ATTRIBUTE_ALWAYS_INLINE static absl::Status Make(const CallDriver& driver, uint16_t function,
                                                        Bytes input, HeldCells cells, bool* busy,
                                                        const CallOptions& options,
                                                        ClientSession::Request* request) {
    const WindowGeometry& geometry = driver.geometry();
    uint32_t capacity = options.response_capacity;
    if (ABSL_PREDICT_FALSE(capacity > geometry.MaxPayload())) {
      return TooLargeForWindow("a response_capacity", capacity, geometry);
    }
    if (capacity == 0) {
      const uint64_t share = geometry.window_bytes() / kDefaultCallsPerWindow - geometry.overhead();
      capacity = static_cast<uint32_t>(std::max<uint64_t>(input.size(), share));
    }
    *request = {MessageKind::kRequest,
                function,
                input,
                cells,
                busy,
                capacity,
                /*deadline_ns=*/0,
                options.interrupted,
                options.when_full};
    if (ABSL_PREDICT_TRUE(options.timeout == absl::InfiniteDuration())) return absl::OkStatus();
    return SetDeadline(options.timeout, request);
  }

  // Why a client refuses CallOptions::retry.
  static absl::Status NoRetry();

 private:
  // This many calls of the default capacity fit into a window.
  static constexpr uint64_t kDefaultCallsPerWindow = 64;

  static absl::Status SetDeadline(absl::Duration timeout, ClientSession::Request* request);
  static absl::Status WrongBuffer(bool is_ours, size_t size, size_t has);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_REQUEST_MAKER_H_
