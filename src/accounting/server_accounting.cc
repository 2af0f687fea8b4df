#include "src/accounting/server_accounting.h"

#include <utility>

#include "src/accounting/accounting_service.h"

namespace invoker {

absl::StatusOr<std::unique_ptr<ServerAccounting>> ServerAccounting::Start(
    const AccountingOptions& options, const std::vector<transport::FabricChoice>& fabrics,
    uint32_t shared_executors) {
  std::unique_ptr<ServerAccounting> accounting(new ServerAccounting);
  UsageBookOptions book_options;
  book_options.shared_executors = shared_executors;
  book_options.file = options.usage_file;
  absl::StatusOr<std::unique_ptr<UsageBook>> book = UsageBook::Open(std::move(book_options));
  if (!book.ok()) return book.status();
  accounting->book_ = *std::move(book);
  if (options.usage_counters) {
    absl::StatusOr<std::unique_ptr<UsageAccumulator>> accumulator =
        UsageAccumulator::Start(fabrics, UsageAccumulator::Options());
    if (!accumulator.ok()) return accumulator.status();
    accounting->accumulator_ = *std::move(accumulator);
  }
  if (options.usage_to.empty()) return accounting;
  UsageContributorOptions contributor_options;
  contributor_options.server = options.usage_to;
  contributor_options.credentials = options.usage_credentials;
  contributor_options.totals = [raw = accounting->book_.get()] { return raw->Totals(); };
  absl::StatusOr<std::unique_ptr<UsageContributor>> contributor =
      UsageContributor::Start(std::move(contributor_options));
  if (!contributor.ok()) return contributor.status();
  accounting->contributor_ = *std::move(contributor);
  accounting->book_->set_on_lease_closed([raw = accounting->contributor_.get()] { raw->Kick(); });
  return accounting;
}

ServerAccounting::~ServerAccounting() {
  if (book_ != nullptr) book_->set_on_lease_closed(nullptr);
}

bootstrap::ServiceFactory ServerAccounting::service() const {
  return MakeAccountingService(accumulator_.get());
}

}  // namespace invoker
