#include "src/transport/fabric/process_addresses.h"

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"

namespace invoker::transport {
namespace {

struct Known {
  absl::Mutex mutex;
  absl::flat_hash_set<std::string> addresses ABSL_GUARDED_BY(mutex);
};

Known& GetKnown() {
  static auto* const known = new Known;
  return *known;
}

}  // namespace

void AddProcessAddress(absl::string_view raw_address) {
  Known& known = GetKnown();
  absl::MutexLock lock(&known.mutex);
  known.addresses.emplace(raw_address);
}

bool IsProcessAddress(absl::string_view raw_address) {
  Known& known = GetKnown();
  absl::MutexLock lock(&known.mutex);
  return known.addresses.contains(raw_address);
}

}  // namespace invoker::transport
