// What a session's calls have done, by function. Not thread-safe.

#ifndef INVOKER_SRC_INVOKE_SESSION_CALL_METERS_H_
#define INVOKER_SRC_INVOKE_SESSION_CALL_METERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "src/bootstrap/messages/worker_status.h"
#include "src/invoke/session/call.h"

namespace invoker {

class CallMeters {
 public:
  // Reading the clock twice takes as long as a hundredth of a fast call, so only one call of so
  // many is timed. A prime number: programs call their functions in turns.
  static constexpr uint32_t kTimedOneIn = 31;

  // The call has been queued.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Begin(const CallRequest& request, Call* call) {
    if (ABSL_PREDICT_FALSE(IsRare(request))) return BeginRare(request, call);
    BeginCounted(request.function_id, request.input.size(), call);
  }

  // Its response has come, and says OK. `payload` is the response's.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void End(const Call& call, const std::byte* payload) {
    if (ABSL_PREDICT_FALSE((call.flags & kBulk) != 0)) return EndBulk(call, payload);
    EndCounted(call, call.payload_bytes);
  }

  // It has ended in another way for its caller.
  void Fail(const Call& call) {
    ++call.counts->failures;
    if (timed_ == &call) timed_ = nullptr;
  }

  // `visit` gets a function's id and a FunctionCounts, for each that has been called.
  template <typename Visitor>
  void ForEach(Visitor&& visit) const {
    for (size_t id = 0; id < functions_.size(); ++id) {
      if (functions_[id] != nullptr) visit(static_cast<uint16_t>(id), *functions_[id]);
    }
  }

 private:
  using Counts = bootstrap::FunctionCounts;

  static bool IsRare(const CallRequest& request) {
    static_assert(static_cast<uint8_t>(MessageKind::kRequest) == 0);
    return ((request.flags & (kBulk | kStore)) | static_cast<uint8_t>(request.kind)) != 0;
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void BeginCounted(uint16_t function, uint64_t bytes, Call* call) {
    Counts* counts = function < functions_.size() ? functions_[function].get() : nullptr;
    if (ABSL_PREDICT_FALSE(counts == nullptr)) counts = Add(function);
    ++counts->calls;
    counts->bytes_in += bytes;
    call->counts = counts;
    if (ABSL_PREDICT_FALSE(--until_timed_ == 0)) BeginTimed(call);
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void EndCounted(const Call& call, uint64_t bytes) {
    call.counts->bytes_out += bytes;
    if (ABSL_PREDICT_FALSE(timed_ == &call)) EndTimed(call);
  }
  ABSL_ATTRIBUTE_NOINLINE void BeginRare(const CallRequest& request, Call* call);
  ABSL_ATTRIBUTE_NOINLINE void EndBulk(const Call& call, const std::byte* payload);
  ABSL_ATTRIBUTE_NOINLINE void BeginTimed(const Call* call);
  ABSL_ATTRIBUTE_NOINLINE void EndTimed(const Call& call);
  ABSL_ATTRIBUTE_NOINLINE Counts* Add(uint16_t function);

  std::vector<std::unique_ptr<Counts>> functions_;  // by id; nullptr: not called yet
  Counts uncounted_;             // what probes and requests to the store count, which nobody reads
  uint32_t until_timed_ = 1;     // the first call is timed
  const Call* timed_ = nullptr;  // under way
  int64_t timed_since_ns_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CALL_METERS_H_
