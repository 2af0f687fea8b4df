#include "tests/contract_providers/core/provider.h"

#include <rdma/providers/fi_log.h>

#include <cinttypes>
#include <cstdio>

#include "tests/contract_providers/core/config.h"
#include "tests/contract_providers/core/info.h"
#include "tests/contract_providers/core/objects.h"

namespace contract {
namespace {

// A library has one provider.
const ProviderDescription* described = nullptr;

int ProviderGetInfo(uint32_t version, const char* node, const char* service, uint64_t flags,
                    const fi_info* hints, fi_info** result) {
  return GetInfo(*described, version, node, service, flags, hints, result);
}

int ProviderFabric(fi_fabric_attr* attributes, fid_fabric** result, void* context) {
  return OpenFabric(*described, attributes, result, context);
}

void ProviderCleanup() {}

}  // namespace

fi_provider* MakeProvider(const ProviderDescription& description) {
  static fi_provider provider = {};
  described = &description;
  provider.version = description.version;
  provider.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
  provider.name = description.name;
  provider.getinfo = ProviderGetInfo;
  provider.fabric = ProviderFabric;
  provider.cleanup = ProviderCleanup;

  Config config;
  if (Config::FromEnvironment(&config)) {
    FI_INFO(&provider, FI_LOG_CORE, "emulated contract, CONTRACT_SEED=%" PRIu64 "\n", config.seed);
    if (NumberFromEnvironment("CONTRACT_PRINT_SEED", 0) != 0) {
      std::fprintf(stderr, "%s: emulated contract, CONTRACT_SEED=%" PRIu64 "\n", description.name,
                   config.seed);
    }
  }
  return &provider;
}

}  // namespace contract
