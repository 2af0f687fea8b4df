// What every lease has used, and every tenant: the server's record of its bills.
//
// What is from where:
// - Lease time and memory come from this book's own clock and the lease's terms; processor time
//   comes from the kernel. A function cannot change any of them, whatever it does in its process.
// - Calls, function time, polling time and bytes are counted by the lease's executors, in the
//   processes that run the tenant's functions. A hostile function can write to its own process's
//   memory and so falsify these, of its own lease and no other. The book accepts them only as far
//   as they are plausible: they never decrease, function and polling time together never exceed
//   executors x the time since the lease was opened, and calls and bytes are not more than any
//   executor can do in that time. What does not fit is counted (UsageBook::implausible) and
//   reported once per lease. A tenant that makes its executor say less than it did still pays for
//   lease time and processor time, which is why bills should be made from these.
// - Leases that share the server's own executors (executors = 0) run in the server's process. Their
//   functions are the server's own libraries: they are trusted.
// - Whose tenant a lease is, is what its client said. Nothing proves it.
//
// Thread-safe. Nothing blocks but on a short lock, and, where there is a file, on the disk.

#ifndef INVOKER_SRC_ACCOUNTING_USAGE_BOOK_H_
#define INVOKER_SRC_ACCOUNTING_USAGE_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "src/accounting/usage_file.h"
#include "src/bootstrap/messages/lease_identity.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker {

// Who more tenants than the book takes are summed under.
inline constexpr absl::string_view kOtherTenants = "(others)";

struct UsageBookOptions {
  // Names that the book keeps apart; the ended leases of further ones are summed under
  // kOtherTenants, so that no usage is lost and invented names cost no memory.
  size_t max_tenants = 4096;
  // How many executors a lease without ones of its own may use at once: the server's.
  uint32_t shared_executors = 1;
  // Where each lease is written when it ends, and the sums are read from at the start; empty:
  // nowhere, and the sums end with the server. A lease without executors of its own under which
  // nothing was called is not written. See UsageFile.
  std::string file;
  // Monotonic.
  std::function<absl::Duration()> clock;  // empty: CLOCK_MONOTONIC
};

// What is known of a lease's executors at some moment, summed over them. Only ever grows.
struct UsageReading {
  absl::Duration cpu_time;  // by the kernel
  uint64_t calls = 0;
  absl::Duration function_time;
  absl::Duration polling_time;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;

  void Add(const UsageReading& other);
};

class UsageBook {
 public:
  // Fails only for the file: what cannot be read or opened.
  static absl::StatusOr<std::unique_ptr<UsageBook>> Open(UsageBookOptions options);
  UsageBook(const UsageBook&) = delete;
  UsageBook& operator=(const UsageBook&) = delete;

  // Called after each lease's end, on the thread that closed it.
  void set_on_lease_closed(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // The lease's time begins. `memory_bytes` is for each executor. A lease that is open already is
  // left as it is.
  void OpenLease(uint64_t lease, absl::string_view tenant, uint32_t executors,
                 uint64_t memory_bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // The newest reading. Of a lease that is not open: nothing happens.
  void Update(uint64_t lease, const UsageReading& reading) ABSL_LOCKS_EXCLUDED(mutex_);

  // The lease's time ends; `last` may be as of now or before. Its usage goes to its tenant's sum,
  // and to the file. Returns the bill, of a lease that is not open an empty one.
  ResourceUsage CloseLease(uint64_t lease, const UsageReading& last) ABSL_LOCKS_EXCLUDED(mutex_);

  // What an open lease has used so far; nothing of others.
  absl::optional<ResourceUsage> OpenUsage(uint64_t lease) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Open leases in the order in which they were opened, then tenants by name. `tenant` empty:
  // everybody's. A lease's id is a secret: a record says instead the how manyth it was, from 1.
  std::vector<bootstrap::UsageRecord> Records(absl::string_view tenant) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // An open lease by the number that its record has. NOT_FOUND: no such lease is open.
  absl::StatusOr<bootstrap::LeaseIdentity> Find(uint64_t number) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The number of an open lease; 0 of others.
  uint64_t NumberOf(uint64_t lease) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Each tenant's usage since the book was opened, open leases' included and the file's not, which
  // an earlier book has told already; every field only ever grows.
  struct TenantTotal {
    std::string tenant;
    ResourceUsage usage;
  };
  std::vector<TenantTotal> Totals() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Readings that were not taken as they were. Of an open lease; 0 of others.
  uint64_t implausible(uint64_t lease) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Account {
    std::string tenant;
    std::string sum;  // whose sum it goes to: the tenant's, or kOtherTenants
    uint32_t executors = 0;
    uint64_t memory_bytes = 0;  // all executors together
    uint64_t number = 0;
    absl::Duration opened;
    UsageReading taken;
    uint64_t implausible = 0;
  };

  explicit UsageBook(UsageBookOptions options);

  // What to tell people, or nothing.
  std::string Take(Account* account, const UsageReading& reading, absl::Duration now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  struct Sum {
    ResourceUsage before;  // what the file said at the start
    ResourceUsage usage;   // leases that have ended since
    uint64_t leases = 0;   // both kinds
  };

  ResourceUsage Bill(const Account& account, absl::Duration now) const;
  // Makes the sum if there is room for one of the tenant's own.
  std::string SumFor(const std::string& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UsageBookOptions options_;
  std::unique_ptr<UsageFile> file_;  // nullptr: none
  mutable absl::Mutex mutex_;
  std::function<void()> on_lease_closed_ ABSL_GUARDED_BY(mutex_);
  uint64_t leases_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Account> open_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Sum> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_SRC_ACCOUNTING_USAGE_BOOK_H_
