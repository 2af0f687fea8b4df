#include "bench/programs/latency_study.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/programs/invoker_contender.h"
#include "bench/programs/socket_contender.h"
#include "bench/raw/raw_contender.h"

namespace invoker::bench {
namespace {

// By which gRPC's ways are chosen and its best is named.
constexpr size_t kScreenBytes = 64;
constexpr int64_t kScreenTurnNs = 10'000'000;
// A turn of gRPC with large messages must not keep the others stopped for long.
constexpr int kGrpcLeast = 20;

absl::string_view NameOf(const Measured& measured) { return measured.contender->name(); }

const Measured* Find(absl::Span<const Measured> measured, absl::string_view name, size_t bytes) {
  for (const Measured& one : measured) {
    if (NameOf(one) == name && one.bytes == bytes) return &one;
  }
  return nullptr;
}

InvokerContender::Options InvokerOptions(const LatencyOptions& options,
                                         const std::string& provider) {
  InvokerContender::Options invoker;
  invoker.provider = provider;
  invoker.address = options.common.address;
  invoker.core = options.common.server_core;
  return invoker;
}

size_t Largest(const std::vector<size_t>& sizes) {
  return std::max<size_t>(*std::max_element(sizes.begin(), sizes.end()), 1);
}

}  // namespace

LatencyStudy::LatencyStudy(const LatencyOptions& options, Report* report)
    : options_(options),
      report_(report),
      latency_(&report->AddTable(
          "latency", "Round trips; those of one provider and mode were measured in turns")),
      ratios_(&report->AddTable("ratios", "Subject over baseline: medians of the rounds' ratios")) {
  report->AddPlot(
      {"Median round trip, us", "latency", "bytes", "p50_us", {"provider", "mode", "subject"}});
  report->AddPlot({"Median round trip over the baseline's",
                   "ratios",
                   "bytes",
                   "p50_ratio",
                   {"provider", "mode", "subject", "baseline"}});
}

bool LatencyStudy::Has(absl::string_view mode) const {
  return std::find(options_.modes.begin(), options_.modes.end(), mode) != options_.modes.end();
}

InterleavePlan LatencyStudy::Plan() const {
  InterleavePlan plan;
  plan.rounds = options_.common.rounds;
  plan.sizes = options_.sizes;
  return plan;
}

absl::Status LatencyStudy::ScreenGrpc() {
  absl::StatusOr<std::unique_ptr<GrpcServers>> servers =
      GrpcServers::Start(options_.common.client_core, options_.common.server_core);
  if (!servers.ok()) return servers.status();
  grpc_servers_ = *std::move(servers);
  std::vector<std::unique_ptr<Contender>> owned;
  std::vector<Contender*> contenders;
  const std::vector<GrpcServers::Way> ways = grpc_servers_->Ways();
  for (const GrpcServers::Way& way : ways) {
    absl::StatusOr<std::unique_ptr<Contender>> contender = grpc_servers_->Connect(way);
    if (!contender.ok()) return contender.status();
    owned.push_back(*std::move(contender));
    contenders.push_back(owned.back().get());
  }
  InterleavePlan plan = Plan();
  plan.sizes = {kScreenBytes};
  plan.rounds = std::max(3, plan.rounds / 4);
  plan.turn_ns = kScreenTurnNs;
  absl::StatusOr<std::vector<Measured>> measured = Interleave(contenders, plan);
  if (!measured.ok()) return measured.status();

  Table& table = report_->AddTable("grpc", "Every way of gRPC: the fastest per server goes on");
  for (const std::string& flavor : GrpcServers::Flavors()) {
    size_t best = ways.size();
    double best_p50 = 0;
    for (size_t i = 0; i < ways.size(); ++i) {
      if (ways[i].server != flavor) continue;
      const Distribution times = Summarize((*measured)[i].rounds);
      Row row;
      row.Label("server", flavor)
          .Label("transport", ways[i].unix_socket ? "unix" : "tcp")
          .Label("client", ways[i].polled ? "polled" : "sync")
          .Label("server_cores", ways[i].pinned ? "one" : "any")
          .Label("bytes", static_cast<int64_t>(kScreenBytes))
          .Times(times);
      table.rows.push_back(std::move(row));
      if (best == ways.size() || times.p50 < best_p50) {
        best = i;
        best_p50 = times.p50;
      }
    }
    if (best < ways.size()) grpc_ways_.push_back(ways[best]);
  }
  return absl::OkStatus();
}

absl::Status LatencyStudy::Measure(const std::string& provider) {
  absl::Status status;
  if (Has("hot")) status = Hot(provider);
  if (status.ok() && Has("adaptive")) status = Adaptive(provider);
  if (status.ok() && Has("warm")) status = Warm(provider);
  if (status.ok() && !grpc_ways_.empty()) status = Grpc(provider);
  return status;
}

absl::Status LatencyStudy::Hot(const std::string& provider) {
  // Invoker first: it prepares the environment for the process's first use of libfabric.
  absl::StatusOr<std::unique_ptr<InvokerContender>> invoker =
      InvokerContender::Start(InvokerOptions(options_, provider));
  if (!invoker.ok()) return invoker.status();
  if (absl::Status status = (*invoker)->Verify(options_.sizes); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<RawContender>> raw = RawContender::Start(
      provider, options_.common.address, Largest(options_.sizes), options_.common.server_core);
  if (!raw.ok()) return raw.status();
  std::vector<Measured> measured;
  const absl::Status status =
      Run(provider, "hot", {raw->get(), invoker->get()}, Plan(), {{"invoker", "raw"}}, &measured);
  if (status.ok()) AddCliff(provider, measured);
  return status;
}

absl::Status LatencyStudy::Adaptive(const std::string& provider) {
  InvokerContender::Options options = InvokerOptions(options_, provider);
  options.server_options = {"--hot-timeout=1ms"};
  absl::StatusOr<std::unique_ptr<InvokerContender>> invoker = InvokerContender::Start(options);
  if (!invoker.ok()) return invoker.status();
  if (absl::Status status = (*invoker)->Verify(options_.sizes); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<RawContender>> raw = RawContender::Start(
      provider, options_.common.address, Largest(options_.sizes), options_.common.server_core);
  if (!raw.ok()) return raw.status();
  return Run(provider, "adaptive", {raw->get(), invoker->get()}, Plan(), {{"invoker", "raw"}});
}

absl::Status LatencyStudy::Warm(const std::string& provider) {
  InterleavePlan plan = Plan();
  // A stream of bytes has no empty messages.
  plan.sizes.erase(std::remove(plan.sizes.begin(), plan.sizes.end(), size_t{0}), plan.sizes.end());
  if (plan.sizes.empty()) return absl::OkStatus();
  InvokerContender::Options options = InvokerOptions(options_, provider);
  options.server_options = {"--hot-timeout=0"};
  options.client.hot_timeout = absl::ZeroDuration();
  absl::StatusOr<std::unique_ptr<InvokerContender>> invoker = InvokerContender::Start(options);
  if (!invoker.ok()) return invoker.status();
  if (absl::Status status = (*invoker)->Verify(plan.sizes); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<SocketContender>> blocking =
      SocketContender::Start(false, Largest(plan.sizes), options_.common.server_core);
  if (!blocking.ok()) return blocking.status();
  absl::StatusOr<std::unique_ptr<SocketContender>> polling =
      SocketContender::Start(true, Largest(plan.sizes), options_.common.server_core);
  if (!polling.ok()) return polling.status();
  return Run(provider, "warm", {blocking->get(), invoker->get(), polling->get()}, plan,
             {{"invoker", "tcp_blocking"}});
}

absl::Status LatencyStudy::Grpc(const std::string& provider) {
  InvokerContender::Options options = InvokerOptions(options_, provider);
  absl::StatusOr<std::unique_ptr<InvokerContender>> invoker = InvokerContender::Start(options);
  if (!invoker.ok()) return invoker.status();
  std::vector<std::unique_ptr<Contender>> owned;
  std::vector<Contender*> contenders = {invoker->get()};
  std::vector<std::string> names;
  for (const GrpcServers::Way& way : grpc_ways_) {
    absl::StatusOr<std::unique_ptr<Contender>> contender = grpc_servers_->Connect(way);
    if (!contender.ok()) return contender.status();
    owned.push_back(*std::move(contender));
    contenders.push_back(owned.back().get());
    names.push_back(way.Name());
  }
  std::vector<Pair> pairs;
  for (const std::string& name : names) pairs.push_back({name, "invoker"});
  InterleavePlan plan = Plan();
  plan.sizes = options_.grpc_sizes;
  plan.rounds = std::max(3, plan.rounds / 2);
  plan.least = kGrpcLeast;
  std::vector<Measured> measured;
  const absl::Status status = Run(provider, "grpc", contenders, plan, pairs, &measured);
  const Measured* ours = Find(measured, "invoker", kScreenBytes);
  if (!status.ok() || ours == nullptr) return status;
  const Measured* best = nullptr;
  const Measured* best_sleeping = nullptr;
  const auto keep_faster = [](const Measured* one, const Measured** kept) {
    if (*kept == nullptr || Summarize(one->rounds).p50 < Summarize((*kept)->rounds).p50) {
      *kept = one;
    }
  };
  for (const GrpcServers::Way& way : grpc_ways_) {
    const Measured* one = Find(measured, way.Name(), kScreenBytes);
    keep_faster(one, &best);
    if (way.server != kPollingFlavor) keep_faster(one, &best_sleeping);
  }
  const auto describe = [&](const Measured& one) {
    return absl::StrFormat("%s, with %.1f times Invoker's p50", one.contender->name(),
                           Compare(one.rounds, ours->rounds, 50).median);
  };
  report_->Note(absl::StrFormat(
      "%s: gRPC's best at %d bytes is %s; of the servers that sleep while they wait, %s.", provider,
      kScreenBytes, describe(*best), describe(*best_sleeping)));
  return absl::OkStatus();
}

absl::Status LatencyStudy::Run(const std::string& provider, absl::string_view mode,
                               const std::vector<Contender*>& contenders,
                               const InterleavePlan& plan, const std::vector<Pair>& pairs,
                               std::vector<Measured>* kept) {
  absl::StatusOr<std::vector<Measured>> measured = Interleave(contenders, plan);
  if (!measured.ok()) {
    return absl::Status(measured.status().code(),
                        absl::StrCat(provider, ", ", mode, ": ", measured.status().message()));
  }
  for (const Measured& one : *measured) {
    Row row;
    row.Label("provider", provider)
        .Label("mode", mode)
        .Label("subject", one.contender->name())
        .Label("bytes", static_cast<int64_t>(one.bytes))
        .Times(Summarize(one.rounds));
    latency_->rows.push_back(std::move(row));
  }
  for (const auto& [subject, baseline] : pairs) {
    for (const size_t bytes : plan.sizes) {
      AddRatios(provider, mode, *measured, subject, baseline, bytes);
    }
  }
  if (kept != nullptr) *kept = *std::move(measured);
  return absl::OkStatus();
}

void LatencyStudy::AddRatios(const std::string& provider, absl::string_view mode,
                             absl::Span<const Measured> measured, absl::string_view subject,
                             absl::string_view baseline, size_t bytes) {
  const Measured* one = Find(measured, subject, bytes);
  const Measured* other = Find(measured, baseline, bytes);
  if (one == nullptr || other == nullptr) return;
  const Ratio p50 = Compare(one->rounds, other->rounds, 50);
  const Ratio p99 = Compare(one->rounds, other->rounds, 99);
  Row row;
  row.Label("provider", provider)
      .Label("mode", mode)
      .Label("subject", subject)
      .Label("baseline", baseline)
      .Label("bytes", static_cast<int64_t>(bytes))
      .Value("p50_ratio", p50.median)
      .Value("p50_ratio_low", p50.lowest)
      .Value("p50_ratio_high", p50.highest)
      .Value("p99_ratio", p99.median)
      .Value("p99_ratio_low", p99.lowest)
      .Value("p99_ratio_high", p99.highest)
      .Value("minus_us", Summarize(one->rounds).p50 - Summarize(other->rounds).p50);
  ratios_->rows.push_back(std::move(row));
}

void LatencyStudy::AddCliff(const std::string& provider, absl::Span<const Measured> measured) {
  const auto step = [&](absl::string_view name, double* us) {
    const Measured* small = Find(measured, name, 4096);
    const Measured* large = Find(measured, name, 8192);
    if (small == nullptr || large == nullptr) return false;
    *us = Summarize(large->rounds).p50 - Summarize(small->rounds).p50;
    return true;
  };
  double ours = 0;
  double raw = 0;
  if (!step("invoker", &ours) || !step("raw", &raw)) return;
  if (cliff_ == nullptr) {
    cliff_ = &report_->AddTable("cliff", "What the step from 4096 to 8192 bytes costs, hot p50");
  }
  Row row;
  row.Label("provider", provider)
      .Value("ours_8k_minus_4k_us", ours)
      .Value("raw_8k_minus_4k_us", raw)
      .Value("ours_minus_raw_us", ours - raw);
  cliff_->rows.push_back(std::move(row));
}

}  // namespace invoker::bench
