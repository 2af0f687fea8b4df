// One value in the memory of an executor, for as long as the store or a call refers to it.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_STORE_STORED_DATA_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_STORE_STORED_DATA_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "src/invoke/executor/bulk/bulk_budget.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {

class StoredData : public std::enable_shared_from_this<StoredData> {
 public:
  // `value` lies in `memory`, which `share` pays for.
  StoredData(std::string type, absl::Span<const std::byte> value, transport::HostBuffer memory,
             BulkBudget::Share share)
      : share_(std::move(share)),
        memory_(std::move(memory)),
        type_(std::move(type)),
        value_(value) {}

  const std::string& type() const { return type_; }
  absl::Span<const std::byte> value() const { return value_; }

 private:
  // The share goes after the memory.
  const BulkBudget::Share share_;
  const transport::HostBuffer memory_;
  const std::string type_;
  const absl::Span<const std::byte> value_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_STORE_STORED_DATA_H_
