// One function over many inputs, on several executors at the same time.
// ClientGroup::StartMap (client_group.h) starts a run.
//
// A run keeps its executors busy without a thread of its own: a call that ends starts the next one,
// with an input that has been fetched before. It holds no more than `max_in_flight` inputs that
// wait, and four times as many calls and results that nobody has taken; until some are taken, it
// starts nothing.

#ifndef INVOKER_SRC_INVOKE_MAP_RUN_H_
#define INVOKER_SRC_INVOKE_MAP_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "invoker/client.h"
#include "invoker/export.h"

namespace invoker {

class ExecutorLoads;
class GroupFunctionIds;

struct MapOptions {
  // Calls under way at once, on all executors together; 0: two for each executor, so that it need
  // not wait for the next one.
  size_t max_in_flight = 0;
  // Results come in the order of the inputs; else as calls end.
  bool ordered = true;
  // After the first item that fails, no more inputs are taken.
  bool stop_on_error = false;
  // For each call; its timeout begins when the call does, the first of several tries (`retry`).
  // `when_full` and `interrupted` are of no effect.
  CallOptions call;
  // After each result that has been taken, on the same thread; `total` is 0 if it is not known.
  std::function<void(uint64_t done, uint64_t total)> on_progress;
};

class MapInput {
 public:
  // Bytes of any size: see CallInput.
  explicit MapInput(std::string data) : data_(std::move(data)) {}
  // Memory that stays as it is until the item's result is there.
  explicit MapInput(Bytes view) : view_(view) {}

  Bytes bytes() const {
    return view_.data() != nullptr
               ? view_
               : Bytes(reinterpret_cast<const std::byte*>(data_.data()), data_.size());
  }

 private:
  std::string data_;
  Bytes view_;
};

// The next input, or why there is none for this item, which is its result then; or nothing: that
// was all.
using MapSource = absl::AnyInvocable<std::optional<absl::StatusOr<MapInput>>()>;

struct MapResult {
  uint64_t index = 0;  // the input's, in the order of the source
  // Let go of it soon: it holds room in its executor's window. A failed item's status says what
  // became of its call (GetCallFate); unless MapOptions::call.retry asks for it nothing has been
  // tried again, but what had not been sent to an executor that was lost has gone to another one.
  // If none is left, the rest is NOT_SENT.
  absl::StatusOr<Response> response;
};

// Movable. One thread at a time. Must go before the group that it runs on.
class INVOKER_EXPORT MapRun {
 public:
  MapRun(MapRun&&) noexcept;
  MapRun& operator=(MapRun&&) noexcept;
  // Starts no more calls. Those under way go on, and their results are lost. Does not wait for
  // them.
  ~MapRun();

  // The next result; nothing once all have been taken. Blocks. Calls the source.
  std::optional<MapResult> Next();

  // Blocks until Next would not, or `limit` has passed. True if Next would not block. Calls the
  // source. Where no room is left in an executor's window because others hold it, waits for room
  // too, for as long as a call would.
  bool Wait(absl::Duration limit);

  // Takes no more inputs; those of calls that are under way will still have results.
  void Stop();

 private:
  friend class ClientGroup;
  class Core;
  // The loads' clients stay as long as the run does; the function's ids are those of their
  // executors.
  MapRun(std::shared_ptr<const GroupFunctionIds> function, std::shared_ptr<ExecutorLoads> loads,
         MapSource source, uint64_t total, MapOptions options);

  void TakeInputs();

  std::shared_ptr<Core> core_;  // callbacks of calls have shares of it; nullptr once moved from
  MapSource source_;
  uint64_t total_;
  uint64_t taken_ = 0;
  std::function<void(uint64_t, uint64_t)> on_progress_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_MAP_RUN_H_
