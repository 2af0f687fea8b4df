// The free cells of a session's request window and response window, and the threads that wait for
// some. Not thread-safe.

#ifndef INVOKER_SRC_INVOKE_SESSION_SESSION_CELLS_H_
#define INVOKER_SRC_INVOKE_SESSION_SESSION_CELLS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/optimization.h"
#include "invoker/response.h"
#include "src/invoke/session/call_waiter.h"
#include "src/invoke/session/cell_allocator.h"

namespace invoker {

class SessionCells {
 public:
  // Each window has `cells` cells, all free.
  explicit SessionCells(uint32_t cells) : requests_(cells), responses_(cells) {}

  // Adjacent cells, or none if there are not so many. The library's own probes take the highest:
  // an answer that is late does not break up the cells that a program's calls need.
  HeldCells AllocateRequest(uint32_t cells, bool highest = false) {
    return Allocate(&requests_, cells, highest);
  }
  HeldCells AllocateResponse(uint32_t cells, bool highest = false) {
    return Allocate(&responses_, cells, highest);
  }

  void FreeRequest(HeldCells cells) { Freed(requests_.Free(cells.first, cells.cells)); }
  void FreeResponse(HeldCells cells) { Freed(responses_.Free(cells.first, cells.cells)); }

  // A thread to wake whenever cells become free.
  void AddWaiter(CallWaiter* waiter) { waiters_.push_back(waiter); }
  void RemoveWaiter(CallWaiter* waiter) {
    waiters_.erase(std::find(waiters_.begin(), waiters_.end(), waiter));
  }

  uint32_t free_request_cells() const { return requests_.free_cells(); }
  uint32_t free_response_cells() const { return responses_.free_cells(); }
  // Runs that have been freed so far.
  uint64_t frees() const { return frees_; }
  // Runs that were free already: an error of this side's.
  uint64_t bad_frees() const { return bad_frees_; }

 private:
  static HeldCells Allocate(CellAllocator* allocator, uint32_t cells, bool highest) {
    const std::optional<uint32_t> first = ABSL_PREDICT_FALSE(highest)
                                              ? allocator->AllocateHighest(cells)
                                              : allocator->Allocate(cells);
    return first.has_value() ? HeldCells{*first, cells} : HeldCells{};
  }
  void Freed(bool valid) {
    if (!valid) ++bad_frees_;
    ++frees_;
    for (CallWaiter* waiter : waiters_) waiter->Wake();
  }

  CellAllocator requests_;
  CellAllocator responses_;
  std::vector<CallWaiter*> waiters_;
  uint64_t frees_ = 0;
  uint64_t bad_frees_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_SESSION_CELLS_H_
