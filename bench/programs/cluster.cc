// What a cluster costs: until many workers have joined and can be called, until clients know of a
// death, for a connection to a worker with many sessions, and for leases.
//
// Everything runs on this machine, without cores of its own: etcd, the workers and the clients.

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/harness/client_options.h"
#include "bench/harness/distribution.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "invoker/client.h"
#include "invoker/client_group.h"
#include "invoker/lease.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/launch/listener.h"
#include "src/launch/program.h"
#include "src/transport/reactor/reactor.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "cluster";
constexpr absl::Duration kLimit = absl::Minutes(5);
constexpr absl::Duration kPeriod = absl::Milliseconds(1);
constexpr int kPools = 4;  // workers with executors to lease

struct Sizes {
  int servers = 100;
  int executors = 10;
  int clients = 100;
  int sessions = 800;
  int leased = 200;
  int large_leases = 3;
  absl::Duration leasing = absl::Seconds(5);
};

double SecondsSince(int64_t began_ns) {
  return static_cast<double>(transport::MonotonicNs() - began_ns) / 1e9;
}

// etcd and workers, which end with it.
class Workers {
 public:
  Workers() : folder_((std::filesystem::temp_directory_path() / "invoker-bench-XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) folder_.clear();
  }
  ~Workers() {
    for (auto& program : programs_) program->Signal(SIGKILL);
    programs_.clear();
    std::error_code error;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  absl::Status StartEtcd() {
    absl::StatusOr<launch::Listener> free = launch::ListenAt("127.0.0.1");
    if (!free.ok()) return free.status();
    const bootstrap::HostPort endpoint = free->address;
    free->socket.Reset();
    const std::string url = absl::StrCat("http://", bootstrap::FormatHostPort(endpoint));
    absl::Status status = Start(
        {"etcd", absl::StrCat("--data-dir=", folder_, "/etcd"),
         absl::StrCat("--listen-client-urls=", url), absl::StrCat("--advertise-client-urls=", url),
         "--listen-peer-urls=unix://peer:0", "--initial-advertise-peer-urls=unix://peer:0",
         "--initial-cluster=default=unix://peer:0"});
    cluster_ = absl::StrCat("etcd://", bootstrap::FormatHostPort(endpoint), "/bench");
    const int64_t began_ns = transport::MonotonicNs();
    while (status.ok() && !bootstrap::TryConnect(endpoint, absl::Seconds(1)).ok()) {
      if (SecondsSince(began_ns) > 30) return absl::UnavailableError("etcd does not start");
      absl::SleepFor(kPeriod);
    }
    return status;
  }

  // Does not wait for it.
  absl::Status StartWorker(const std::string& provider, std::vector<std::string> options) {
    std::vector<std::string> command = {
        ProgramPath("tools/invoker_server"), absl::StrCat("--provider=", provider),
        absl::StrCat("--cluster=", cluster_),
        absl::StrCat("--functions=", ProgramPath("bench/functions/"
                                                 "libbench_functions.so"))};
    std::move(options.begin(), options.end(), std::back_inserter(command));
    return Start(std::move(command));
  }
  void KillLast() { programs_.back()->Signal(SIGKILL); }

  const std::string& cluster() const { return cluster_; }

 private:
  absl::Status Start(std::vector<std::string> command) {
    launch::ProgramSettings settings;
    settings.command = {"setpriv", "--pdeathsig", "KILL", "--"};
    std::move(command.begin(), command.end(), std::back_inserter(settings.command));
    settings.variables = {{"INVOKER_SERVER_CONFIG", "none"}};
    settings.folder = folder_;
    settings.output = launch::kNowhere;
    settings.errors = launch::kNowhere;
    absl::StatusOr<std::unique_ptr<launch::Program>> program = launch::Program::Start(settings);
    if (!program.ok()) return program.status();
    programs_.push_back(*std::move(program));
    return absl::OkStatus();
  }

  std::string folder_;
  std::string cluster_;
  std::vector<std::unique_ptr<launch::Program>> programs_;
};

absl::StatusOr<std::unique_ptr<ClientGroup>> Follow(const Workers& workers,
                                                    const ClientOptions& options) {
  const int64_t began_ns = transport::MonotonicNs();
  while (true) {
    auto group = ClientGroup::Connect(workers.cluster(), options);
    if (group.ok() || SecondsSince(began_ns) > absl::ToDoubleSeconds(kLimit)) return group;
  }
}

absl::Status MeasureJoin(const std::string& provider, const Sizes& sizes, Table* table) {
  Workers workers;
  absl::Status status = workers.StartEtcd();
  const int64_t began_ns = transport::MonotonicNs();
  for (int i = 0; i < sizes.servers && status.ok(); ++i) {
    status = workers.StartWorker(provider, {absl::StrCat("--executors=", sizes.executors),
                                            "--polling=warm", "--lease-cores=0", "--window=65536"});
  }
  if (!status.ok()) return status;
  ClientOptions options = OptionsFor(provider);
  options.hot_timeout = absl::ZeroDuration();
  absl::StatusOr<std::unique_ptr<ClientGroup>> group = Follow(workers, options);
  if (!group.ok()) return group.status();
  const size_t all = static_cast<size_t>(sizes.servers) * static_cast<size_t>(sizes.executors);
  while ((*group)->left() < all) {
    if (SecondsSince(began_ns) > absl::ToDoubleSeconds(kLimit)) {
      return absl::DeadlineExceededError(
          absl::StrCat((*group)->left(), " of ", all, " executors have joined"));
    }
    absl::SleepFor(kPeriod);
  }
  const double joined_s = SecondsSince(began_ns);
  for (size_t i = 0; i < all; ++i) {
    const absl::StatusOr<RemoteFunction> noop = (*group)->client(i).Function("noop");
    if (!noop.ok()) return noop.status();
    status = (*group)->client(i).Invoke(*noop, "hello").status();
    if (!status.ok()) return status;
  }
  table->rows.emplace_back()
      .Label("provider", provider)
      .Label("servers", sizes.servers)
      .Label("executors", static_cast<int64_t>(all))
      .Value("connected_s", joined_s)
      .Value("all_called_s", SecondsSince(began_ns));
  return absl::OkStatus();
}

absl::Status MeasureDeath(const std::string& provider, const Sizes& sizes, Table* table) {
  Workers workers;
  absl::Status status = workers.StartEtcd();
  if (status.ok()) {
    status = workers.StartWorker(provider, {"--polling=warm", "--lease-cores=0", "--window=65536"});
  }
  if (!status.ok()) return status;
  ClientOptions options = OptionsFor(provider);
  options.hot_timeout = absl::ZeroDuration();
  options.peer_timeout = absl::Seconds(1);
  std::vector<std::unique_ptr<ClientGroup>> groups;
  for (int i = 0; i < sizes.clients; ++i) {
    absl::StatusOr<std::unique_ptr<ClientGroup>> group = Follow(workers, options);
    if (!group.ok()) return group.status();
    groups.push_back(*std::move(group));
  }
  const int64_t began_ns = transport::MonotonicNs();
  workers.KillLast();
  Rounds times(1);
  std::vector<bool> knows(groups.size(), false);
  while (times[0].size() < groups.size()) {
    for (size_t i = 0; i < groups.size(); ++i) {
      if (knows[i] || groups[i]->left() != 0) continue;
      knows[i] = true;
      times[0].push_back(transport::MonotonicNs() - began_ns);
    }
    if (SecondsSince(began_ns) > 60) return absl::DeadlineExceededError("not all have noticed");
    absl::SleepFor(kPeriod);
  }
  table->rows.emplace_back()
      .Label("provider", provider)
      .Label("clients", sizes.clients)
      .Times(Summarize(times));
  return absl::OkStatus();
}

absl::Status MeasureConnect(const std::string& provider, const Sizes& sizes, Table* table) {
  const absl::StatusOr<InvokerServer> server = StartInvokerServer(
      -1, provider, "127.0.0.1", {"--polling=warm", "--lease-cores=0", "--window=65536"});
  if (!server.ok()) return server.status();
  ClientOptions options = OptionsFor(provider);
  options.hot_timeout = absl::ZeroDuration();
  std::vector<std::unique_ptr<Client>> clients;
  // The first one finds libfabric unready.
  constexpr int kEach = 25;
  for (int before : {1, sizes.sessions / 4, sizes.sessions}) {
    Rounds times(1);
    while (static_cast<int>(clients.size()) < before + kEach) {
      const int64_t began_ns = transport::MonotonicNs();
      absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server->target, options);
      if (!client.ok()) return client.status();
      if (static_cast<int>(clients.size()) >= before) {
        times[0].push_back(transport::MonotonicNs() - began_ns);
      }
      clients.push_back(*std::move(client));
    }
    table->rows.emplace_back()
        .Label("provider", provider)
        .Label("sessions", before)
        .Times(Summarize(times));
  }
  return absl::OkStatus();
}

LeaseOptions LeasesOf(const std::string& provider, int executors) {
  LeaseOptions options;
  options.client = OptionsFor(provider);
  options.client.hot_timeout = absl::ZeroDuration();
  options.executors = static_cast<uint32_t>(executors);
  return options;
}

// Starts workers with `cores` executors to lease each, and waits until all have given a lease.
absl::Status StartPools(const std::string& provider, int servers, int cores, int prestart,
                        Workers* workers) {
  absl::Status status = workers->StartEtcd();
  for (int i = 0; i < servers && status.ok(); ++i) {
    status = workers->StartWorker(
        provider, {"--polling=warm", absl::StrCat("--lease-cores=", cores),
                   absl::StrCat("--prestart=", prestart),
                   absl::StrCat("--lease-memory=", cores * 256, "M"), "--window=65536"});
  }
  if (!status.ok()) return status;
  LeaseOptions options = LeasesOf(provider, servers);
  options.spread = "server";
  const int64_t began_ns = transport::MonotonicNs();
  size_t leases = 0;
  while (leases < static_cast<size_t>(servers)) {
    const auto group = ClientGroup::Acquire(workers->cluster(), options);
    if (group.ok()) leases = (*group)->leases().size();
    if (leases < static_cast<size_t>(servers) && SecondsSince(began_ns) > 60) {
      return absl::DeadlineExceededError(absl::StrCat(
          leases, " of ", servers, " workers give leases: ", group.status().message()));
    }
  }
  return absl::OkStatus();
}

absl::Status MeasureLeases(const std::string& provider, const Sizes& sizes, Table* table) {
  for (const int servers : {1, kPools}) {
    Workers workers;
    absl::Status status = StartPools(provider, servers, 4, 2, &workers);
    if (!status.ok()) return status;
    const LeaseOptions options = LeasesOf(provider, 1);
    Rounds times(1);
    const int64_t leasing_ns = transport::MonotonicNs();
    while (SecondsSince(leasing_ns) < absl::ToDoubleSeconds(sizes.leasing)) {
      const int64_t one_ns = transport::MonotonicNs();
      const auto group = ClientGroup::Acquire(workers.cluster(), options);
      if (!group.ok()) return group.status();
      times[0].push_back(transport::MonotonicNs() - one_ns);
    }
    table->rows.emplace_back()
        .Label("provider", provider)
        .Label("servers", servers)
        .Value("leases_per_s", static_cast<double>(times[0].size()) / SecondsSince(leasing_ns))
        .Times(Summarize(times));
  }
  return absl::OkStatus();
}

// One lease of many executors, in line and at once. A worker that needs longer than a lease at once
// gives it still holds its cores at the next try, and refuses it.
absl::Status MeasureLargeLease(const std::string& provider, const Sizes& sizes, Table* table) {
  Workers workers;
  const int cores = (sizes.leased + kPools - 1) / kPools;
  absl::Status status = StartPools(provider, kPools, cores, 0, &workers);
  if (!status.ok()) return status;
  LeaseOptions options = LeasesOf(provider, sizes.leased);
  options.spread = "server";
  // The lease at once comes last: what a refused one leaves behind would slow down the other kind.
  for (const absl::Duration wait : {absl::Minutes(1), absl::ZeroDuration()}) {
    options.wait = wait;
    Rounds times(1);
    int refused = 0;
    for (int i = 0; i < sizes.large_leases; ++i) {
      const int64_t began_ns = transport::MonotonicNs();
      const auto group = ClientGroup::Acquire(workers.cluster(), options);
      if (group.ok()) {
        times[0].push_back(transport::MonotonicNs() - began_ns);
      } else if (absl::IsResourceExhausted(group.status())) {
        ++refused;
      } else {
        return group.status();
      }
    }
    Row& row = table->rows.emplace_back()
                   .Label("provider", provider)
                   .Label("servers", kPools)
                   .Label("executors", sizes.leased)
                   .Label("wait_s", absl::ToInt64Seconds(wait))
                   .Value("refused", refused);
    if (times[0].empty()) continue;
    const Distribution distribution = Summarize(times);
    row.Value("ms_per_executor", distribution.p50 / 1000 / sizes.leased).Times(distribution);
  }
  return absl::OkStatus();
}

absl::Status Run(const CommonOptions& options, const Sizes& sizes, Report* report) {
  GatherConditions(options, report);
  Table& join = report->AddTable("join", "From the start of the first worker on");
  Table& connect = report->AddTable("connect", "One more session with a worker that has some");
  Table& death = report->AddTable("death", "Until a client knows that its worker was killed");
  Table& leases = report->AddTable("leases", "Leases of one executor, one after the other");
  Table& large = report->AddTable("large_lease", "One lease of many executors");
  report->AddPlot({"One more session with a worker that has some (p50, us)",
                   "connect",
                   "sessions",
                   "p50_us",
                   {"provider"}});
  report->AddPlot({"Leases of one executor, one after the other, a second",
                   "leases",
                   "servers",
                   "leases_per_s",
                   {"provider"},
                   false,
                   false});
  report->Note(
      "Workers, clients and etcd share the machine's cores. The clients are groups of one process. "
      "A lease's time is that of finding the members, of the lease and of its sessions; it is "
      "given back at once. leases: each worker keeps two executors ready (--prestart=2).");
  report->Note(
      "large_lease: each executor is started for the lease. wait_s: how long it may wait in line, "
      "where 0 is a lease at once. refused: leases that there was no room for; their times do not "
      "count.");
  return MeasureEach(options, [&](const std::string& provider) {
    absl::Status status = MeasureJoin(provider, sizes, &join);
    if (status.ok()) status = MeasureConnect(provider, sizes, &connect);
    if (status.ok()) status = MeasureDeath(provider, sizes, &death);
    if (status.ok()) status = MeasureLeases(provider, sizes, &leases);
    if (status.ok()) status = MeasureLargeLease(provider, sizes, &large);
    return status;
  });
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What a cluster costs: joining, connecting, deaths and leases", bench::kProgram);
  bench::CommonOptions options;
  options.providers = {"tcp;ofi_rxm"};
  bench::AddCommonOptions(&app, &options);
  bench::Sizes sizes;
  app.add_option("--servers", sizes.servers, "that join")->type_name("N")->capture_default_str();
  app.add_option("--executors", sizes.executors, "of each of them")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--clients", sizes.clients, "that learn of a death")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--sessions", sizes.sessions, "the most that a worker has before another one")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--leased", sizes.leased, "executors of one lease")
      ->check(CLI::Range(bench::kPools, 10'000))
      ->type_name("N")
      ->capture_default_str();
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  // The numbers of workers, clients and sessions stay: the bars are about them.
  if (options.quick) {
    sizes.large_leases = 1;
    sizes.leasing = absl::Seconds(1);
  }
  bench::AllowDescriptors();
  bench::Report report(bench::kProgram, "What does a cluster cost?");
  return bench::Finish(options, report, bench::Run(options, sizes, &report));
}
