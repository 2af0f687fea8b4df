// fi_getinfo: what is refused, and what is told.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_INFO_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_INFO_H_

#include <rdma/fabric.h>

#include "tests/contract_providers/core/contract.h"

namespace contract {

// Works like a provider's getinfo entry point: 0 and a list, or a negative fi_errno.
int GetInfo(const ProviderDescription& provider, uint32_t version, const char* node,
            const char* service, uint64_t flags, const fi_info* hints, fi_info** result);

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_INFO_H_
