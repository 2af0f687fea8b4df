// A tenant's usage as a row of counters, on both sides of an addition. Pure: any thread.

#ifndef INVOKER_SRC_ACCOUNTING_USAGE_ROW_H_
#define INVOKER_SRC_ACCOUNTING_USAGE_ROW_H_

#include <array>
#include <cstdint>

#include "src/bootstrap/messages/messages.h"

namespace invoker {

using UsageRow = std::array<uint64_t, bootstrap::kCountersPerRow>;

// In the order of Usage's fields, which servers of all releases have in common.
UsageRow ToRow(const ResourceUsage& usage);
ResourceUsage FromRow(const UsageRow& row);

}  // namespace invoker

#endif  // INVOKER_SRC_ACCOUNTING_USAGE_ROW_H_
