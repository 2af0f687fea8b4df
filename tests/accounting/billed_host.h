// A host behind the bootstrap that tells the bills which a test wrote.

#ifndef INVOKER_TESTS_ACCOUNTING_BILLED_HOST_H_
#define INVOKER_TESTS_ACCOUNTING_BILLED_HOST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/bootstrap/fake_host.h"

namespace invoker {

class BilledHost final : public bootstrap::FakeHost {
 public:
  std::vector<bootstrap::UsageRecord> GetUsage(absl::string_view tenant) override {
    absl::MutexLock lock(&mutex_);
    asked_for_ = std::string(tenant);
    return records_;
  }

  absl::StatusOr<ResourceUsage> LeaseUsage(uint64_t lease) override {
    absl::MutexLock lock(&mutex_);
    asked_for_lease_ = lease;
    return lease_usage_;
  }

  void set_records(std::vector<bootstrap::UsageRecord> records) {
    absl::MutexLock lock(&mutex_);
    records_ = std::move(records);
  }
  void set_lease_usage(const ResourceUsage& usage) {
    absl::MutexLock lock(&mutex_);
    lease_usage_ = usage;
  }

  // What was asked last, since it was asked for here.
  std::string TakeAskedFor() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(asked_for_, "nobody has asked");
  }
  uint64_t TakeAskedForLease() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(asked_for_lease_, 0);
  }

 private:
  absl::Mutex mutex_;
  ResourceUsage lease_usage_ ABSL_GUARDED_BY(mutex_);
  uint64_t asked_for_lease_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<bootstrap::UsageRecord> records_ ABSL_GUARDED_BY(mutex_);
  std::string asked_for_ ABSL_GUARDED_BY(mutex_);
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
