// A policy file as people write it, and as they should not: it is refused with a word about where,
// or understood, and then understood the same way again.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "src/security/policy.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using invoker::security::Policy;
  const invoker::fuzz::Input input(data, size);
  const auto policy = Policy::Parse(input.Rest(), "policy.txt");
  if (!policy.ok()) {
    FUZZ_CHECK(absl::StrContains(policy.status().message(), "policy.txt"));
    return 0;
  }
  const auto again = Policy::Parse(input.Rest(), "policy.txt");
  FUZZ_CHECK(again.ok() && again->Explain() == policy->Explain());
  // Who shows nothing is the same for both, and one of the tenants or nobody.
  const auto nobody = policy->Identify({});
  if (nobody == nullptr) return 0;
  bool known = false;
  for (const auto& tenant : policy->tenants()) known |= tenant == nobody;
  FUZZ_CHECK(known);
  return 0;
}
