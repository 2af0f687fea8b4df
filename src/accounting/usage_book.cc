#include "src/accounting/usage_book.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/messages/usage_sum.h"
#include "src/invoke/function/function_registry.h"
#include "src/log/log.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {
namespace {

// By how much an executor's clock may seem to run ahead of the server's before that is more than
// two clocks' difference.
absl::Duration Tolerance(absl::Duration bound) { return absl::Milliseconds(50) + bound / 100; }

// Functions with a concurrency run at the same time, on at most so many threads each.
constexpr int64_t kMostThreads = FunctionRegistry::kMaxConcurrency;

// More than an executor can do in a second, by far: so counters cannot be set to what would make
// sums begin at zero again.
constexpr double kMostCalls = 1e9;
constexpr double kMostBytes = 1e12;

uint64_t Most(double of_a_second, absl::Duration bound) {
  const double most = of_a_second * absl::ToDoubleSeconds(bound + Tolerance(bound));
  // Months of many executors.
  constexpr double kLargest = 1.8e19;
  return most < kLargest ? static_cast<uint64_t>(most) : std::numeric_limits<uint64_t>::max();
}

absl::Duration MonotonicClock() { return absl::Nanoseconds(transport::MonotonicNs()); }

// A client that shares the server's executors has neither time nor memory of its own.
bool UsedNothing(const ResourceUsage& bill) {
  return bill.calls == 0 && bill.bytes_in == 0 && bill.bytes_out == 0 &&
         bill.function_time == absl::ZeroDuration() && bill.cpu_time == absl::ZeroDuration();
}

}  // namespace

void UsageReading::Add(const UsageReading& other) {
  cpu_time += other.cpu_time;
  calls = SaturatingSum(calls, other.calls);
  function_time += other.function_time;
  polling_time += other.polling_time;
  bytes_in = SaturatingSum(bytes_in, other.bytes_in);
  bytes_out = SaturatingSum(bytes_out, other.bytes_out);
}

absl::StatusOr<std::unique_ptr<UsageBook>> UsageBook::Open(UsageBookOptions options) {
  if (!options.clock) options.clock = MonotonicClock;
  std::unique_ptr<UsageBook> book(new UsageBook(std::move(options)));
  if (book->options_.file.empty()) return book;
  absl::StatusOr<std::unique_ptr<UsageFile>> file = UsageFile::Open(
      book->options_.file,
      [&book](const std::string& tenant, const ResourceUsage& usage) {
        absl::MutexLock lock(&book->mutex_);
        Sum& sum = book->ended_[book->SumFor(tenant)];
        AddUsage(usage, &sum.before);
        ++sum.leases;
      },
      [](absl::string_view message) { LogError(message); });
  if (!file.ok()) return file.status();
  book->file_ = *std::move(file);
  return book;
}

UsageBook::UsageBook(UsageBookOptions options) : options_(std::move(options)) {}

std::string UsageBook::SumFor(const std::string& tenant) {
  const bool apart = ended_.contains(tenant) || ended_.size() < options_.max_tenants;
  std::string name = apart ? tenant : std::string(kOtherTenants);
  ended_.try_emplace(name);
  return name;
}

void UsageBook::set_on_lease_closed(std::function<void()> callback) {
  absl::MutexLock lock(&mutex_);
  on_lease_closed_ = std::move(callback);
}

void UsageBook::OpenLease(uint64_t lease, absl::string_view tenant, uint32_t executors,
                          uint64_t memory_bytes) {
  Account account;
  account.tenant = std::string(tenant);
  account.executors = executors;
  account.memory_bytes = executors * memory_bytes;
  absl::MutexLock lock(&mutex_);
  account.opened = options_.clock();
  if (open_.contains(lease)) return;
  account.number = ++leases_;
  account.sum = SumFor(account.tenant);
  open_.emplace(lease, std::move(account));
}

std::string UsageBook::Take(Account* account, const UsageReading& reading,
                            absl::Duration now) const {
  UsageReading& taken = account->taken;
  const bool decreased = reading.calls < taken.calls || reading.bytes_in < taken.bytes_in ||
                         reading.bytes_out < taken.bytes_out ||
                         reading.function_time < taken.function_time ||
                         reading.polling_time < taken.polling_time;
  const absl::Duration bound =
      (now - account->opened) * static_cast<int64_t>(account->executors != 0
                                                         ? account->executors
                                                         : options_.shared_executors);
  const uint64_t most_calls = Most(kMostCalls, bound);
  const uint64_t most_bytes = Most(kMostBytes, bound);
  const absl::Duration most_function_time = bound * kMostThreads;
  const bool exceeds = reading.calls > most_calls || reading.bytes_in > most_bytes ||
                       reading.bytes_out > most_bytes ||
                       reading.function_time > most_function_time + Tolerance(bound) ||
                       reading.polling_time > bound + Tolerance(bound);
  taken.cpu_time = std::max(taken.cpu_time, reading.cpu_time);
  taken.calls = std::max(taken.calls, std::min(reading.calls, most_calls));
  taken.bytes_in = std::max(taken.bytes_in, std::min(reading.bytes_in, most_bytes));
  taken.bytes_out = std::max(taken.bytes_out, std::min(reading.bytes_out, most_bytes));
  // What has been taken stays.
  taken.function_time =
      std::max(taken.function_time, std::min(reading.function_time, most_function_time));
  taken.polling_time = std::max(taken.polling_time, std::min(reading.polling_time, bound));
  if (!decreased && !exceeds) return "";
  if (++account->implausible > 1) return "";
  return absl::StrCat(
      "the executors of a lease of tenant \"", account->tenant, "\" report usage that ",
      decreased ? "is less than before"
                : absl::StrCat("is more than they can have used in ", absl::FormatDuration(bound)),
      ": a function has changed its executor's counters. Only what is plausible is taken, and "
      "this is reported once for a lease");
}

ResourceUsage UsageBook::Bill(const Account& account, absl::Duration now) const {
  const absl::Duration held = now - account.opened;
  ResourceUsage usage;
  usage.lease_time = held * static_cast<int64_t>(account.executors);
  usage.cpu_time = account.taken.cpu_time;
  usage.memory_byte_seconds = static_cast<uint64_t>(static_cast<double>(account.memory_bytes) *
                                                    absl::ToDoubleSeconds(held));
  usage.calls = account.taken.calls;
  usage.function_time = account.taken.function_time;
  usage.polling_time = account.taken.polling_time;
  usage.bytes_in = account.taken.bytes_in;
  usage.bytes_out = account.taken.bytes_out;
  return usage;
}

void UsageBook::Update(uint64_t lease, const UsageReading& reading) {
  std::string message;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = open_.find(lease);
    if (found == open_.end()) return;
    message = Take(&found->second, reading, options_.clock());
  }
  if (!message.empty()) LogWarning(message);
}

ResourceUsage UsageBook::CloseLease(uint64_t lease, const UsageReading& last) {
  std::string message;
  Account account;
  ResourceUsage bill;
  std::function<void()> closed;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = open_.find(lease);
    if (found == open_.end()) return {};
    account = std::move(found->second);
    open_.erase(found);
    const absl::Duration now = options_.clock();
    message = Take(&account, last, now);
    bill = Bill(account, now);
    Sum& sum = ended_[account.sum];
    AddUsage(bill, &sum.usage);
    ++sum.leases;
    closed = on_lease_closed_;
  }
  if (!message.empty()) LogWarning(message);
  LogDebug(absl::StrCat("a lease is closed; calls: ", bill.calls), {account.number, 0});
  if (closed) closed();
  if (file_ == nullptr || (account.executors == 0 && UsedNothing(bill))) return bill;
  if (const absl::Status status = file_->Append(account.tenant, account.executors, bill);
      !status.ok()) {
    LogError(status.message());
  }
  return bill;
}

absl::optional<ResourceUsage> UsageBook::OpenUsage(uint64_t lease) const {
  absl::MutexLock lock(&mutex_);
  const auto found = open_.find(lease);
  if (found == open_.end()) return absl::nullopt;
  return Bill(found->second, options_.clock());
}

absl::StatusOr<bootstrap::LeaseIdentity> UsageBook::Find(uint64_t number) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [lease, account] : open_) {
    if (account.number == number) return bootstrap::LeaseIdentity{lease, account.tenant};
  }
  return absl::NotFoundError(
      absl::StrCat("no lease ", number, " is open; `invoker leases` lists those that are"));
}

uint64_t UsageBook::NumberOf(uint64_t lease) const {
  absl::MutexLock lock(&mutex_);
  const auto found = open_.find(lease);
  return found == open_.end() ? 0 : found->second.number;
}

std::vector<bootstrap::UsageRecord> UsageBook::Records(absl::string_view tenant) const {
  std::vector<bootstrap::UsageRecord> records;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Duration now = options_.clock();
    for (const auto& [lease, account] : open_) {
      if (!tenant.empty() && account.tenant != tenant) continue;
      records.push_back(
          {account.tenant, account.number, account.executors, true, Bill(account, now)});
    }
    for (const auto& [name, sum] : ended_) {
      if (sum.leases == 0 || (!tenant.empty() && name != tenant)) continue;
      ResourceUsage all = sum.before;
      AddUsage(sum.usage, &all);
      records.push_back({name, 0, 0, false, all});
    }
  }
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return std::tie(b.open, a.lease, a.tenant) < std::tie(a.open, b.lease, b.tenant);
  });
  return records;
}

std::vector<UsageBook::TenantTotal> UsageBook::Totals() const {
  std::vector<TenantTotal> totals;
  absl::MutexLock lock(&mutex_);
  absl::flat_hash_map<std::string, ResourceUsage> sums;
  for (const auto& [name, sum] : ended_) sums[name] = sum.usage;
  const absl::Duration now = options_.clock();
  for (const auto& [lease, account] : open_) {
    AddUsage(Bill(account, now), &sums[account.sum]);
  }
  for (const auto& [tenant, usage] : sums) totals.push_back({tenant, usage});
  return totals;
}

uint64_t UsageBook::implausible(uint64_t lease) const {
  absl::MutexLock lock(&mutex_);
  const auto found = open_.find(lease);
  return found == open_.end() ? 0 : found->second.implausible;
}

}  // namespace invoker
