// The one function that libfabric looks up in a provider library, for a ProviderDescription.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_PROVIDER_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_PROVIDER_H_

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include "tests/contract_providers/core/contract.h"

namespace contract {

// The provider of this library. To be called once, by fi_prov_ini.
fi_provider* MakeProvider(const ProviderDescription& description);

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_PROVIDER_H_
