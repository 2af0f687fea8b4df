#include "src/accounting/usage_contributor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/invoke/fabrics/fabric_choice.h"
#include "src/invoke/fabrics/host_identity.h"
#include "src/invoke/fabrics/offered_fabrics.h"
#include "src/log/log.h"
#include "src/transport/reactor/remote_counter.h"

namespace invoker {
namespace {

// How long the thread sleeps at a time while additions are under way.
constexpr absl::Duration kStep = absl::Milliseconds(10);

}  // namespace

absl::StatusOr<std::unique_ptr<UsageContributor>> UsageContributor::Start(
    UsageContributorOptions options) {
  if (absl::Status status = bootstrap::ParseHostPort(options.server).status(); !status.ok()) {
    return status;
  }
  const absl::StatusOr<uint64_t> id = transport::DrawRandom();
  if (!id.ok()) return id.status();
  std::unique_ptr<UsageContributor> contributor(new UsageContributor(*id, std::move(options)));
  absl::Status started = transport::StartThread(&contributor->thread_,
                                                [raw = contributor.get()] { raw->ThreadMain(); });
  if (!started.ok()) return started;
  return contributor;
}

UsageContributor::UsageContributor(uint64_t id, UsageContributorOptions options)
    : id_(id), options_(std::move(options)) {}

UsageContributor::~UsageContributor() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void UsageContributor::Kick() {
  absl::MutexLock lock(&mutex_);
  kicked_ = true;
}

absl::Status UsageContributor::Flush() {
  absl::MutexLock lock(&mutex_);
  kicked_ = true;
  const uint64_t wanted = rounds_begun_ + 1;
  const auto ended = [this, wanted]()
                         ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return rounds_ended_ >= wanted; };
  mutex_.Await(absl::Condition(&ended));
  return last_round_;
}

void UsageContributor::ThreadMain() {
  bool stop = false;
  while (!stop) {
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return kicked_ || stop_; };
      mutex_.AwaitWithTimeout(absl::Condition(&due), options_.interval);
      kicked_ = false;
      stop = stop_;
      ++rounds_begun_;
    }
    const absl::Status status = Round();
    if (!status.ok() && !std::exchange(away_, true)) {
      LogWarning(absl::StrCat("cannot add usage to the counters at ", options_.server, ": ",
                              status.message(), ". It is kept, and tried again"));
    } else if (status.ok() && std::exchange(away_, false)) {
      LogInfo(absl::StrCat("usage is added to the counters at ", options_.server, " again"));
    }
    absl::MutexLock lock(&mutex_);
    ++rounds_ended_;
    last_round_ = status;
  }
  CloseReactor();
}

std::vector<UsageContributor::Growth> UsageContributor::FindGrowth() {
  std::vector<Growth> growth;
  for (const UsageBook::TenantTotal& total : options_.totals()) {
    std::unique_ptr<UsageRow>& sent = sent_[total.tenant];
    if (sent == nullptr) sent = std::make_unique<UsageRow>(UsageRow{});
    const UsageRow now = ToRow(total.usage);
    if (now != *sent) growth.push_back({total.tenant, now, sent.get()});
  }
  return growth;
}

absl::Status UsageContributor::Round() {
  const std::vector<Growth> growth = FindGrowth();
  if (growth.empty()) return absl::OkStatus();
  if (absl::Status status = Connect(); !status.ok()) return status;
  absl::Span<const Growth> left(growth);
  while (!left.empty()) {
    const absl::Span<const Growth> batch = left.subspan(0, bootstrap::kMaxContributedTenants);
    left.remove_prefix(batch.size());
    bootstrap::Contribution contribution;
    contribution.contributor = id_;
    contribution.fabric = fabric_;
    contribution.endpoint_address = reactor_->address();
    for (const Growth& each : batch) contribution.tenants.push_back(each.tenant);
    absl::StatusOr<bootstrap::ContributionTarget> target =
        client_->Contribute(contribution, options_.timeout);
    if (!target.ok()) {
      // The next server there may offer other fabrics.
      CloseReactor();
      client_.reset();
      return target.status();
    }
    absl::Status status = FollowAccumulator(*target);
    if (status.ok()) status = Add(batch, *target);
    if (!status.ok()) {
      CloseReactor();
      client_.reset();
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status UsageContributor::Connect() {
  if (client_ == nullptr) {
    absl::StatusOr<std::unique_ptr<bootstrap::BootstrapClient>> client =
        bootstrap::BootstrapClient::Connect(options_.server, options_.timeout,
                                            options_.credentials);
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
  }
  return reactor_ != nullptr ? absl::OkStatus() : OpenReactor();
}

// On the best fabric that both sides have and that opens here.
absl::Status UsageContributor::OpenReactor() {
  const bootstrap::WorkerInfo& info = client_->worker_info();
  std::vector<bootstrap::FabricOffer> offers;
  for (const bootstrap::FabricOffer& offer : info.fabrics) {
    if (!options_.provider.empty() && options_.provider != offer.identity.provider) continue;
    offers.push_back(offer);
  }
  absl::StatusOr<OfferedFabrics> fabrics = FindOfferedFabrics(offers, {});
  if (!fabrics.ok()) return fabrics.status();
  const FabricPlan plan =
      ChooseFabrics(offers, fabrics->local, info.host_identity == HostIdentity());
  std::vector<FabricFailure> failed;
  for (const size_t offer : plan.order) {
    transport::ReactorOptions options;
    options.retry_limit = options_.timeout;
    absl::StatusOr<std::unique_ptr<transport::Reactor>> reactor =
        transport::Reactor::Open(*std::move(fabrics->found[offer].choice), options);
    if (!reactor.ok()) {
      failed.push_back({offer, reactor.status(), ""});
      continue;
    }
    reactor_ = *std::move(reactor);
    reactor_->set_handler(this);
    fabric_ = fabrics->local[offer].identity;
    return absl::OkStatus();
  }
  return ExplainFailure(options_.server, offers, plan, failed);
}

absl::Status UsageContributor::FollowAccumulator(const bootstrap::ContributionTarget& target) {
  if (accumulator_ != 0 && accumulator_ != target.accumulator) {
    LogWarning(absl::StrCat("the counters at ", options_.server,
                            " have begun anew: what was added before is not in them"));
  }
  accumulator_ = target.accumulator;
  if (peer_ != nullptr && peer_address_ == target.endpoint_address) return absl::OkStatus();
  absl::StatusOr<const transport::Peer*> peer = reactor_->peers().Insert(target.endpoint_address);
  if (!peer.ok()) return peer.status();
  if (peer_ != nullptr) reactor_->peers().Release(peer_);
  peer_ = *peer;
  peer_address_ = target.endpoint_address;
  return absl::OkStatus();
}

// What is posted counts as sent, whatever becomes of it.
absl::Status UsageContributor::Add(absl::Span<const Growth> growth,
                                   const bootstrap::ContributionTarget& target) {
  const transport::RemoteCounters counters = {peer_->address,
                                              {static_cast<transport::AddMethod>(target.add_method),
                                               target.base, target.key, target.counters}};
  const absl::Time deadline = absl::Now() + options_.timeout;
  failure_ = absl::OkStatus();
  const auto turn = [this, deadline] {
    if (reactor_->Poll() == 0) reactor_->Wait(kStep);
    return failure_.ok() && reactor_->health().ok() && absl::Now() < deadline;
  };
  bool going = true;
  for (size_t tenant = 0; tenant < growth.size() && going; ++tenant) {
    const Growth& each = growth[tenant];
    for (uint32_t i = 0; i < bootstrap::kCountersPerRow && going; ++i) {
      const uint64_t value = each.now[i] - (*each.sent)[i];
      if (value == 0) continue;
      bool posted = false;
      while (!posted && going) {
        posted = reactor_->PostAtomicAdd(counters, target.first_counters[tenant] + i, value, this,
                                         /*tag=*/0);
        // Failed posts have been told already.
        going = posted ? failure_.ok() : turn();
      }
      if (!posted) break;
      (*each.sent)[i] = each.now[i];
      additions_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  while (going && reactor_->operations().outstanding() > 0) going = turn();
  const size_t outstanding = reactor_->operations().outstanding();
  if (going && outstanding == 0) return failure_;
  unconfirmed_.fetch_add(outstanding, std::memory_order_relaxed);
  reactor_->RetireAllOf(this);
  LogWarning(absl::StrCat("of additions to the counters at ", options_.server, ", ", unconfirmed(),
                          " so far may or may not have happened; they are not repeated"));
  if (!failure_.ok()) return failure_;
  if (!reactor_->health().ok()) return reactor_->health();
  return absl::DeadlineExceededError(
      absl::StrCat("additions were not done after ", absl::FormatDuration(options_.timeout)));
}

void UsageContributor::OnOperationFailed(const transport::Operation& operation,
                                         const absl::Status& status) {
  static_cast<void>(operation);
  unconfirmed_.fetch_add(1, std::memory_order_relaxed);
  failure_ = status;
}

void UsageContributor::CloseReactor() {
  if (reactor_ == nullptr) return;
  const bool quiet = reactor_->operations().outstanding() == 0;
  if (peer_ != nullptr) reactor_->peers().Release(peer_);
  peer_ = nullptr;
  peer_address_.clear();
  transport::Reactor::Close(std::move(reactor_), quiet);
  reactor_ = nullptr;
}

}  // namespace invoker
