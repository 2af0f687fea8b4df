#include "bench/programs/lease_start.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/harness/client_options.h"
#include "bench/harness/distribution.h"
#include "bench/harness/server_process.h"
#include "invoker/lease.h"
#include "src/invoke/connect/connect_times.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::bench {
namespace {

constexpr int kLeases = 4;  // for each server
// However many rounds the rest has: each costs four starts of a server.
constexpr int kMostRounds = 5;
constexpr size_t kBytes = 64;

// Before each lease, the first one included: the server fills its pool, or has nothing to do.
constexpr absl::Duration kPause = absl::Milliseconds(250);

// How the executor comes about.
struct Origin {
  const char* name;
  ExecutorKind kind;
  const char* prestart;  // one of the server's options
};
constexpr std::array<Origin, 4> kOrigins = {{
    {"native_pool", ExecutorKind::kNative, "--prestart=1"},
    {"native_fork", ExecutorKind::kNative, "--prestart=0"},
    {"python_pool", ExecutorKind::kPython, "--prestart-python=1"},
    {"python_fork", ExecutorKind::kPython, "--prestart-python=0"},
}};

constexpr char kPython[] = "/usr/bin/python3";

// In the order in which they happen. The steps of connecting are ConnectTimes'.
struct Step {
  const char* name;
  absl::Duration ConnectTimes::*time;
};
constexpr std::array<Step, 6> kSteps = {{
    {"worker_info", &ConnectTimes::worker_info},
    {"discovery", &ConnectTimes::discovery},
    {"lease", &ConnectTimes::lease},
    {"endpoint", &ConnectTimes::endpoint},
    {"session", &ConnectTimes::session},
    {"probe", &ConnectTimes::probe},
}};

struct Series {
  std::array<Rounds, kSteps.size()> steps;
  Rounds first_call;
  Rounds total;

  void BeginRound() {
    for (Rounds& rounds : steps) rounds.emplace_back();
    first_call.emplace_back();
    total.emplace_back();
  }
};

// `series` may be null: then nothing is noted.
absl::Status TakeLease(const std::string& target, const std::string& provider, ExecutorKind kind,
                       Series* series) {
  absl::SleepFor(kPause);
  ConnectTimes times;
  LeaseOptions options;
  options.kind = kind;
  options.client = OptionsFor(provider);
  options.client.times = &times;
  const std::string input(kBytes, 'x');
  const int64_t began_ns = transport::MonotonicNs();
  const absl::StatusOr<std::unique_ptr<Lease>> lease = Lease::Acquire(target, options);
  const int64_t acquired_ns = transport::MonotonicNs();
  if (!lease.ok()) return lease.status();
  const absl::StatusOr<RemoteFunction> noop = (*lease)->Function("noop");
  if (!noop.ok()) return noop.status();
  const absl::Status called = (*lease)->executor(0).Invoke(*noop, input).status();
  const int64_t result_ns = transport::MonotonicNs();
  if (!called.ok()) return called;
  if (series != nullptr) {
    for (size_t i = 0; i < kSteps.size(); ++i) {
      series->steps[i].back().push_back(absl::ToInt64Nanoseconds(times.*kSteps[i].time));
    }
    series->first_call.back().push_back(result_ns - acquired_ns);
    series->total.back().push_back(result_ns - began_ns);
  }
  // Given back now, and waited for: the server has one core to lease.
  return (*lease)->Release().status();
}

absl::Status MeasureRound(const CommonOptions& options, const std::string& provider,
                          const Origin& origin, Series* series) {
  std::vector<std::string> flags = {"--lease-cores=1", origin.prestart};
  if (origin.kind == ExecutorKind::kPython) {
    flags.push_back(absl::StrCat("--python=", kPython));
  }
  // shm works between processes of one user only.
  const passwd* user = getpwuid(geteuid());
  if (user == nullptr) return absl::NotFoundError("this process's user has no name");
  flags.push_back(absl::StrCat("--executor-user=", user->pw_name));
  const absl::StatusOr<InvokerServer> server =
      StartInvokerServer(options.server_core, provider, options.address, flags);
  if (!server.ok()) return server.status();
  const bool first = series->total.empty();
  series->BeginRound();
  for (int i = 0; i < kLeases; ++i) {
    // The first one in this process finds libfabric unready.
    absl::Status status =
        TakeLease(server->target, provider, origin.kind, first && i == 0 ? nullptr : series);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void AddRows(const std::string& provider, const Origin& origin, const Series& series, Table* phases,
             Table* totals) {
  int64_t step = 0;
  const auto add = [&](absl::string_view phase, const Rounds& rounds) {
    phases->rows.emplace_back()
        .Label("provider", provider)
        .Label("executor", origin.name)
        .Label("step", step++)
        .Label("phase", phase)
        .Times(Summarize(rounds));
  };
  for (size_t i = 0; i < kSteps.size(); ++i) add(kSteps[i].name, series.steps[i]);
  add("first_call", series.first_call);
  totals->rows.emplace_back()
      .Label("provider", provider)
      .Label("executor", origin.name)
      .Times(Summarize(series.total));
}

}  // namespace

absl::Status MeasureLeaseStarts(const CommonOptions& options, const std::string& provider,
                                Table* phases, Table* totals) {
  // For the server, which hands it on to its Python executors.
  setenv("PYTHONPATH", ProgramPath("src/python").c_str(), 1);
  std::array<Series, kOrigins.size()> series;
  const int rounds = std::min(options.rounds, kMostRounds);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < kOrigins.size(); ++i) {
      absl::Status status = MeasureRound(options, provider, kOrigins[i], &series[i]);
      if (!status.ok()) {
        return absl::Status(status.code(), absl::StrCat(kOrigins[i].name, ": ", status.message()));
      }
    }
  }
  for (size_t i = 0; i < kOrigins.size(); ++i) {
    AddRows(provider, kOrigins[i], series[i], phases, totals);
  }
  return absl::OkStatus();
}

void ExplainLeaseStarts(Report* report) {
  report->Condition("leases of each server",
                    absl::StrCat(kLeases, " of one executor, ", absl::FormatDuration(kPause),
                                 " of pause before each, in ", kMostRounds, " rounds at most"));
  report->Note(
      "executors: a lease on a server that runs, by a process that has had others. pool: the "
      "executor was started before (--prestart=1, --prestart-python=1). fork: it is started when "
      "the lease is asked for. lease: the stream, up to the grant. first_call: noop, 64 B, also "
      "on executors for Python functions.");
}

}  // namespace invoker::bench
