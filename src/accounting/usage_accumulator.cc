#include "src/accounting/usage_accumulator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "src/accounting/usage_book.h"
#include "src/accounting/usage_row.h"
#include "src/base/random.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/messages/compatibility.h"
#include "src/invoke/fabrics/fabric_identity.h"
#include "src/transport/reactor/reactor.h"
#include "src/transport/reactor/remote_counter.h"

namespace invoker {
namespace {

constexpr absl::Duration kLongestSleep = absl::Milliseconds(50);

// After so long without a word from a contributor its endpoint's entry is given up.
constexpr int64_t kContributorNs = 60'000'000'000;

}  // namespace

// One fabric: its endpoint, the counters that can be reached there, and who adds to them. The
// accumulator's thread, for everything but Open and what says so.
class UsageAccumulator::Port final : public transport::ReactorHandler {
 public:
  static absl::StatusOr<std::unique_ptr<Port>> Open(transport::FabricChoice fabric,
                                                    uint32_t counters, const Options& options) {
    absl::StatusOr<std::unique_ptr<transport::Reactor>> reactor =
        transport::Reactor::Open(std::move(fabric), transport::ReactorOptions());
    if (!reactor.ok()) return reactor.status();
    std::unique_ptr<Port> port(new Port(*std::move(reactor), options.max_contributors));
    absl::StatusOr<transport::CounterArray> array =
        options.by_message ? transport::CounterArray::Open(port->reactor(), counters,
                                                           transport::AddMethod::kMessage)
                           : transport::CounterArray::Open(port->reactor(), counters);
    if (!array.ok()) return array.status();
    port->array_.emplace(*std::move(array));
    return port;
  }

  ~Port() override {
    array_.reset();
    transport::Reactor::Close(std::move(reactor_), contributors_.empty());
  }

  transport::Reactor* reactor() const { return reactor_.get(); }
  // Any thread.
  const transport::CounterArray& array() const { return *array_; }

  absl::Status Expect(uint64_t id, const std::string& address) {
    if (!reactor_->health().ok()) return reactor_->health();
    if (!contributors_.contains(id) && contributors_.size() >= max_contributors_) {
      ForgetSilent(transport::MonotonicNs());
      if (contributors_.size() >= max_contributors_) {
        return absl::ResourceExhaustedError(
            absl::StrCat("this server's usage counters have ", contributors_.size(),
                         " contributing servers on provider \"", reactor_->profile().provider,
                         "\", which is the most that they take; one that is silent for ",
                         absl::FormatDuration(absl::Nanoseconds(kContributorNs)), " makes room"));
      }
    }
    Contributor& contributor = contributors_[id];
    contributor.seen_ns = transport::MonotonicNs();
    if (contributor.address == address) return absl::OkStatus();
    absl::StatusOr<const transport::Peer*> peer = reactor_->peers().Insert(address);
    if (contributor.peer != nullptr) reactor_->peers().Release(contributor.peer);
    if (!peer.ok()) {
      contributors_.erase(id);
      return peer.status();
    }
    contributor.peer = *peer;
    contributor.address = address;
    return absl::OkStatus();
  }

  void OnToken(uint64_t token) override { static_cast<void>(token); }

  void OnTick(int64_t now_ns) override {
    if (now_ns - looked_ns_ < kContributorNs / 16) return;
    looked_ns_ = now_ns;
    ForgetSilent(now_ns);
  }

 private:
  struct Contributor {
    std::string address;
    const transport::Peer* peer = nullptr;
    int64_t seen_ns = 0;
  };

  Port(std::unique_ptr<transport::Reactor> reactor, size_t max_contributors)
      : reactor_(std::move(reactor)), max_contributors_(max_contributors) {
    reactor_->set_handler(this);
  }

  void ForgetSilent(int64_t now_ns) {
    for (auto entry = contributors_.begin(); entry != contributors_.end();) {
      if (now_ns - entry->second.seen_ns < kContributorNs) {
        ++entry;
        continue;
      }
      reactor_->peers().Release(entry->second.peer);
      contributors_.erase(entry++);
    }
  }

  std::unique_ptr<transport::Reactor> reactor_;
  const size_t max_contributors_;
  std::optional<transport::CounterArray> array_;
  absl::flat_hash_map<uint64_t, Contributor> contributors_;
  int64_t looked_ns_ = 0;
};

absl::StatusOr<std::unique_ptr<UsageAccumulator>> UsageAccumulator::Start(
    const std::vector<transport::FabricChoice>& fabrics, const Options& options) {
  const absl::StatusOr<uint64_t> id = transport::DrawRandom();
  if (!id.ok()) return id.status();
  std::unique_ptr<UsageAccumulator> accumulator(new UsageAccumulator(*id, options));
  for (const transport::FabricChoice& fabric : fabrics) {
    absl::StatusOr<transport::FabricChoice> copy = transport::CopyOf(fabric);
    if (!copy.ok()) return copy.status();
    accumulator->fabrics_.push_back(*std::move(copy));
  }
  {
    absl::MutexLock lock(&accumulator->mutex_);
    accumulator->ports_.resize(fabrics.size());
  }
  absl::Status started = transport::StartThread(&accumulator->thread_,
                                                [raw = accumulator.get()] { raw->ThreadMain(); });
  if (!started.ok()) return started;
  return accumulator;
}

UsageAccumulator::UsageAccumulator(uint64_t id, const Options& options)
    : id_(id), options_(options), rows_({{std::string(kOtherTenants), 0}}) {}

UsageAccumulator::~UsageAccumulator() {
  inbox_.Submit([this] { stop_ = true; });
  if (thread_.joinable()) thread_.join();
}

void UsageAccumulator::ThreadMain() {
  while (!stop_) {
    inbox_.RunAll();
    bool active = false;
    for (Port* port : driven_) active |= port->reactor()->Poll() > 0;
    if (!active && !stop_)
      inbox_.Sleep(reactors_, reactors_.empty() ? absl::Hours(1) : kLongestSleep);
  }
  inbox_.RunAll();
}

absl::StatusOr<UsageAccumulator::Port*> UsageAccumulator::OpenPort(
    const bootstrap::FabricIdentity& fabric) {
  for (size_t i = 0; i < fabrics_.size(); ++i) {
    const bool same_host = fabrics_[i].profile.same_host_only;
    const bootstrap::FabricIdentity own = IdentityOf(fabrics_[i].profile, *fabrics_[i].info);
    if (!bootstrap::CheckSameFabric(own, fabric, same_host).ok()) continue;
    if (ports_[i] != nullptr) return ports_[i].get();
    absl::StatusOr<transport::FabricChoice> copy = transport::CopyOf(fabrics_[i]);
    if (!copy.ok()) return copy.status();
    absl::StatusOr<std::unique_ptr<Port>> port = Port::Open(
        *std::move(copy), (options_.max_tenants + 1) * bootstrap::kCountersPerRow, options_);
    if (!port.ok()) return port.status();
    ports_[i] = *std::move(port);
    Port* const raw = ports_[i].get();
    inbox_.Submit([this, raw] {
      driven_.push_back(raw);
      reactors_.push_back(raw->reactor());
    });
    return raw;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "this server does not serve the contributor's fabric: provider \"", fabric.provider,
      "\", protocol ", fabric.protocol, ", version ", fabric.protocol_version));
}

uint32_t UsageAccumulator::RowFor(const std::string& tenant) {
  if (const auto found = rows_.find(tenant); found != rows_.end()) return found->second;
  if (rows_.size() > options_.max_tenants) return 0;
  const uint32_t row = static_cast<uint32_t>(rows_.size());
  rows_[tenant] = row;
  return row;
}

absl::StatusOr<bootstrap::ContributionTarget> UsageAccumulator::Contribute(
    const bootstrap::Contribution& contribution) {
  bootstrap::ContributionTarget target;
  Port* port = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    absl::StatusOr<Port*> opened = OpenPort(contribution.fabric);
    if (!opened.ok()) return opened.status();
    port = *opened;
    for (const std::string& tenant : contribution.tenants) {
      target.first_counters.push_back(RowFor(tenant) * bootstrap::kCountersPerRow);
    }
  }
  absl::Status status;
  absl::Notification done;
  inbox_.Submit([&] {
    status = port->Expect(contribution.contributor, contribution.endpoint_address);
    done.Notify();
  });
  done.WaitForNotification();
  if (!status.ok()) return status;
  const transport::CounterDescriptor& counters = port->array().descriptor();
  target.accumulator = id_;
  target.endpoint_address = port->reactor()->address();
  target.add_method = static_cast<uint32_t>(counters.method);
  target.base = counters.base;
  target.key = counters.key;
  target.counters = counters.counters;
  return target;
}

std::vector<bootstrap::UsageRecord> UsageAccumulator::Records(absl::string_view tenant) const {
  std::vector<bootstrap::UsageRecord> records;
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, row] : rows_) {
    if (!tenant.empty() && name != tenant) continue;
    UsageRow sums = {};
    for (const std::unique_ptr<Port>& port : ports_) {
      if (port == nullptr) continue;
      for (uint32_t i = 0; i < bootstrap::kCountersPerRow; ++i) {
        sums[i] += port->array().Read(row * bootstrap::kCountersPerRow + i);
      }
    }
    if (sums == UsageRow{}) continue;
    bootstrap::UsageRecord record;
    record.tenant = name;
    record.usage = FromRow(sums);
    record.contributed = true;
    records.push_back(std::move(record));
  }
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.tenant < b.tenant; });
  return records;
}

}  // namespace invoker
