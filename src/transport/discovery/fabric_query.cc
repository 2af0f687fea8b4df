#include "src/transport/discovery/fabric_query.h"

#include <arpa/inet.h>

#include <cstdlib>
#include <mutex>

#include "absl/base/const_init.h"
#include "absl/synchronization/mutex.h"
#include "src/transport/base/signal_guard.h"
#include "src/transport/discovery/rdma_device.h"

namespace invoker::transport {
namespace {

bool IsUnserved(const ProfileRow& row, const fi_info& info) {
  return !row.unserved_fabric.empty() && info.fabric_attr->name != nullptr &&
         row.unserved_fabric == info.fabric_attr->name;
}

bool IsIpv6(const std::string& node) {
  in6_addr ignored;
  return inet_pton(AF_INET6, node.substr(0, node.find('%')).c_str(), &ignored) == 1;
}

// One thread at a time: a provider may set up what belongs to the process when it is first asked,
// without a lock. One of 1.17 then ends the process if two threads ask at once.
QueryResult Ask(const ProfileRow& row, absl::string_view provider, const fi_info& hints,
                const std::string& node) {
  static absl::Mutex mutex(absl::kConstInit);
  absl::MutexLock lock(&mutex);
  const SignalGuard guard;
  QueryResult result;
  fi_info* raw = nullptr;
  result.code = fi_getinfo(kApiVersion, node.empty() ? nullptr : node.c_str(), nullptr,
                           node.empty() ? 0 : FI_SOURCE, &hints, &raw);
  if (result.code != 0) return result;
  result.list.reset(raw);
  for (const fi_info* entry = raw; entry != nullptr; entry = entry->next) {
    const bool is_its = provider.empty() || provider == entry->fabric_attr->prov_name;
    if (is_its && !IsUnserved(row, *entry)) result.entries.push_back(entry);
  }
  if (result.entries.empty()) result.code = -FI_ENODATA;
  return result;
}

bool MayHaveRdmaDevice() {
  const absl::StatusOr<std::vector<RdmaDevice>> devices = ListRdmaDevices();
  return !devices.ok() || !devices->empty();
}

}  // namespace

void PrepareEnvironment() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const ProfileRow& row : Rows()) {
      for (const EnvironmentDefault& variable : row.environment) {
        if (variable.version != 0 && variable.version != fi_version()) continue;
        if (variable.without_rdma && MayHaveRdmaDevice()) continue;
        setenv(variable.name, variable.value, /*replace=*/0);
      }
    }
    FitUniverseSize();
  });
}

QueryResult QueryFabrics(const ProfileRow& row, absl::string_view provider, fi_info* hints,
                         const std::string& node) {
  PrepareEnvironment();
  // Without a format some providers look for an IPv4 address only.
  if (IsIpv6(node)) hints->addr_format = FI_SOCKADDR_IN6;
  QueryResult result = Ask(row, provider, *hints, node);
  if (result.entries.empty() && (hints->caps & FI_ATOMIC) != 0) {
    hints->caps &= ~FI_ATOMIC;
    result = Ask(row, provider, *hints, node);
  }
  return result;
}

}  // namespace invoker::transport
