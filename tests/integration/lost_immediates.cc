#include "tests/integration/lost_immediates.h"

#include <dlfcn.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/transport/base/libfabric.h"
#include "tests/transport/faults.h"

namespace invoker {
namespace {

using transport::EndpointFaults;

std::atomic<bool> losing{false};

bool IsImmediate(const EndpointFaults::Attempt& attempt) {
  return attempt.kind == EndpointFaults::Kind::kWriteData ||
         attempt.kind == EndpointFaults::Kind::kInjectData;
}

void Install(LoseImmediates::How how, EndpointFaults* faults) {
  using How = LoseImmediates::How;
  faults->drop_immediates = how == How::kSilently || how == How::kWithAllElseRefused;
  if (how == How::kSilently) return;
  faults->judge = [how](const EndpointFaults::Attempt& attempt) {
    const bool refused =
        how == How::kWithEverything || (how == How::kRefused) == IsImmediate(attempt);
    return refused ? -FI_EOPNOTSUPP : 0;
  };
}

// Tables of operations that stand in for a provider's. Kept to the end of the process, as the
// provider's own are.
struct Tables {
  std::mutex mutex;
  std::map<const fi_ops_fabric*, fi_ops_fabric*> fabrics;
  std::map<const fi_ops_fabric*, const fi_ops_fabric*> of_fabric;
  std::map<const fi_ops_domain*, fi_ops_domain*> domains;
  std::map<const fi_ops_domain*, const fi_ops_domain*> of_domain;
  std::vector<EndpointFaults*> faults;
  LoseImmediates::How how = LoseImmediates::How::kSilently;
  std::string provider;
};

Tables& AllTables() {
  static Tables* const tables = new Tables;
  return *tables;
}

// Ours for the provider's table, made at the first use.
template <typename Ops>
Ops* Replacement(Ops* theirs, std::map<const Ops*, Ops*>* replacements,
                 std::map<const Ops*, const Ops*>* originals) {
  Ops*& ours = (*replacements)[theirs];
  if (ours == nullptr) {
    ours = new Ops(*theirs);
    (*originals)[ours] = theirs;
  }
  return ours;
}

int OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  Tables& tables = AllTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  const int code = tables.of_domain.at(domain->ops)->endpoint(domain, info, endpoint, context);
  if (code == 0 && losing &&
      (tables.provider.empty() || tables.provider == info->fabric_attr->prov_name)) {
    auto* faults = new EndpointFaults(*endpoint);
    Install(tables.how, faults);
    tables.faults.push_back(faults);
  }
  return code;
}

int OpenDomain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  Tables& tables = AllTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  const int code = tables.of_fabric.at(fabric->ops)->domain(fabric, info, domain, context);
  if (code == 0) {
    fi_ops_domain* ours = Replacement((*domain)->ops, &tables.domains, &tables.of_domain);
    ours->endpoint = OpenEndpoint;
    (*domain)->ops = ours;
  }
  return code;
}

}  // namespace

LoseImmediates::LoseImmediates(How how, const std::string& provider) {
  Tables& tables = AllTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  tables.how = how;
  tables.provider = provider;
  losing = true;
}

LoseImmediates::~LoseImmediates() { losing = false; }

}  // namespace invoker

extern "C" int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  using Function = int (*)(fi_fabric_attr*, fid_fabric**, void*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "fi_fabric"));
  // A layered provider opens the one below it in here, which is left alone.
  static thread_local int depth = 0;
  ++depth;
  const int code = real(attributes, fabric, context);
  --depth;
  if (code != 0 || depth > 0) return code;
  invoker::Tables& tables = invoker::AllTables();
  std::lock_guard<std::mutex> lock(tables.mutex);
  fi_ops_fabric* ours = invoker::Replacement((*fabric)->ops, &tables.fabrics, &tables.of_fabric);
  ours->domain = invoker::OpenDomain;
  (*fabric)->ops = ours;
  return code;
}
