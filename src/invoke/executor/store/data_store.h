// The data that clients have put into the memory of one executor, for later calls to refer to
// (Lease::Put). It counts as used memory for large payloads, of which less is left meanwhile.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_STORE_DATA_STORE_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_STORE_DATA_STORE_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "invoker/function_abi.h"
#include "src/invoke/executor/bulk/bulk_budget.h"
#include "src/invoke/executor/store/stored_data.h"
#include "src/invoke/wire/store_request.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {

// Any thread.
class DataStore {
 public:
  explicit DataStore(std::shared_ptr<BulkBudget> budget) : budget_(std::move(budget)) {}

  // Does what a request asks for, and keeps nothing of its memory. INVALID_ARGUMENT: it is no such
  // request. RESOURCE_EXHAUSTED: there is no memory for the data.
  absl::Status Do(StoreOperation operation, absl::Span<const std::byte> request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // kPut of a request that begins where `memory` does, which `share` pays for: the data stays
  // there.
  absl::Status Take(transport::HostBuffer memory, size_t request_bytes, BulkBudget::Share share)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // nullptr: there is no such data. It stays for as long as it is referred to.
  std::shared_ptr<const StoredData> Find(const DataId& id) const ABSL_LOCKS_EXCLUDED(mutex_);

  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Copy(absl::Span<const std::byte> request);
  absl::Status Free(absl::Span<const std::byte> request) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<BulkBudget> budget_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<DataId, std::shared_ptr<const StoredData>> data_ ABSL_GUARDED_BY(mutex_);
};

// For invoker_services::find_data: looks in `store`, which may be nullptr, fills in `found`, and
// returns what keeps the data; nullptr: there is none.
std::shared_ptr<const StoredData> FindData(const DataStore* store, const uint8_t* reference,
                                           invoker_stored_data* found);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_STORE_DATA_STORE_H_
