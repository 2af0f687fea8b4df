// Adds up what leases have used.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_USAGE_SUM_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_USAGE_SUM_H_

#include <cstdint>

#include "invoker/lease_terms.h"

namespace invoker {

// At most the largest number, so that what is said of many leases together is never less than of
// one.
uint64_t SaturatingSum(uint64_t a, uint64_t b);

// Field by field.
void AddUsage(const ResourceUsage& from, ResourceUsage* to);

}  // namespace invoker

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_USAGE_SUM_H_
