// A host behind the bootstrap that tells the bills which a test wrote.

#ifndef INVOKER_TESTS_ACCOUNTING_BILLED_HOST_H_
#define INVOKER_TESTS_ACCOUNTING_BILLED_HOST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bootstrap/fake_host.h"

namespace invoker {

class BilledHost final : public bootstrap::FakeHost {
 public:
  std::vector<bootstrap::UsageRecord> GetUsage(absl::string_view tenant) override {
    asked_for = std::string(tenant);
    return records;
  }

  absl::StatusOr<bootstrap::Usage> LeaseUsage(uint64_t lease) override {
    asked_for_lease = lease;
    return lease_usage;
  }

  absl::StatusOr<bootstrap::Usage> lease_usage = bootstrap::Usage();  // set before anybody asks
  uint64_t asked_for_lease = 0;
  std::vector<bootstrap::UsageRecord> records;  // set before anybody asks
  std::string asked_for;
};

// With another number in each field.
inline bootstrap::UsageRecord SampleRecord() {
  bootstrap::UsageRecord record;
  record.tenant = "alice";
  record.lease = 12;
  record.executors = 3;
  record.open = true;
  record.usage.lease_time = absl::Milliseconds(1500);
  record.usage.cpu_time = absl::Seconds(2);
  record.usage.memory_byte_seconds = 1ull << 63;
  record.usage.calls = 40'000;
  record.usage.function_time = absl::Nanoseconds(5'000'000);
  record.usage.polling_time = absl::Nanoseconds(600'000'001);
  record.usage.bytes_in = 7;
  record.usage.bytes_out = 5 << 20;
  return record;
}

}  // namespace invoker

#endif  // INVOKER_TESTS_ACCOUNTING_BILLED_HOST_H_
