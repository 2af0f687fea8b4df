// What clusters say: members and their loads, as anybody who may write to etcd can put them there,
// and addresses and lists of servers.

#include <cstdint>
#include <string>

#include "src/cluster/cluster_address.h"
#include "src/cluster/member.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"

namespace invoker::fuzz {
namespace {

template <typename T>
bool Refused(const absl::StatusOr<T>& parsed) {
  FUZZ_CHECK(parsed.ok() || !parsed.status().message().empty());
  return !parsed.ok();
}

void CheckMember(absl::string_view text) {
  const auto member = cluster::ParseMember(text);
  if (Refused(member)) return;
  FUZZ_CHECK(!member->server.empty() && member->incarnation != 0);
  const auto again = cluster::ParseMember(cluster::ToJson(*member));
  FUZZ_CHECK(again.ok() && again->server == member->server && again->labels == member->labels &&
             again->functions == member->functions && again->incarnation == member->incarnation);
}

void CheckLoad(absl::string_view text) {
  const auto load = cluster::ParseLoad(text);
  if (Refused(load)) return;
  const auto again = cluster::ParseLoad(cluster::ToJson(*load));
  FUZZ_CHECK(again.ok() && *again == *load);
}

void CheckAddress(absl::string_view text) {
  const auto address = cluster::ParseEtcdAddress(text);
  if (Refused(address)) return;
  FUZZ_CHECK(!address->endpoints.empty() && !address->name.empty());
  const auto again = cluster::ParseEtcdAddress(cluster::FormatEtcdAddress(*address));
  FUZZ_CHECK(again.ok() && again->name == address->name &&
             again->endpoints.size() == address->endpoints.size());
}

}  // namespace
}  // namespace invoker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace invoker;
  using namespace invoker::fuzz;
  Input input(data, size);
  const bool in_store = input.TakeBool();
  const bool first = input.TakeBool();
  if (in_store) {
    first ? CheckMember(input.Rest()) : CheckLoad(input.Rest());
  } else if (first) {
    CheckAddress(input.Rest());
  } else {
    Refused(cluster::ParseServerList(input.Rest()));
    Refused(cluster::ParseServerFile("fuzz", input.Rest()));
  }
  return 0;
}
