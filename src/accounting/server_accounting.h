// All of a server's accounting: the book of its leases, the counters that other servers add to,
// and who adds this server's usage to another's.
//
// Make it before the lease host, which writes to book(), and the server, which has service(); it
// outlives both.

#ifndef INVOKER_SRC_ACCOUNTING_SERVER_ACCOUNTING_H_
#define INVOKER_SRC_ACCOUNTING_SERVER_ACCOUNTING_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "invoker/client_credentials.h"
#include "src/accounting/usage_accumulator.h"
#include "src/accounting/usage_book.h"
#include "src/accounting/usage_contributor.h"
#include "src/bootstrap/service/server.h"
#include "src/transport/discovery/discovery.h"

namespace invoker {

// The server's flags of these names.
struct AccountingOptions {
  std::string usage_file;               // UsageBookOptions::file
  std::string usage_to;                 // HOST:PORT of a server with usage_counters; empty: none
  ClientCredentials usage_credentials;  // to show at usage_to
  bool usage_counters = false;          // other servers may add to counters here
};

class ServerAccounting {
 public:
  // `fabrics` and `shared_executors` are the worker's.
  static absl::StatusOr<std::unique_ptr<ServerAccounting>> Start(
      const AccountingOptions& options, const std::vector<transport::FabricChoice>& fabrics,
      uint32_t shared_executors);
  // What has not been added elsewhere yet is, if it can be within seconds.
  ~ServerAccounting();

  UsageBook* book() const { return book_.get(); }
  bootstrap::ServiceFactory service() const;

 private:
  ServerAccounting() = default;

  std::unique_ptr<UsageBook> book_;
  std::unique_ptr<UsageAccumulator> accumulator_;  // nullptr: none
  std::unique_ptr<UsageContributor> contributor_;  // nullptr: none
};

}  // namespace invoker

#endif  // INVOKER_SRC_ACCOUNTING_SERVER_ACCOUNTING_H_
