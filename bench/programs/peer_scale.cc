// How far does it go: a million peers known to one endpoint, a thousand sessions of one executor?
//
// Peers: addresses of nobody go into a reactor's peer table and into a plain address vector.
// Sessions: what an idle one costs the worker's process is taken apart: ours (counted), the
// bootstrap's and the provider's (each from a process that has nothing else).

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/programs/crowd.h"
#include "bench/programs/peer_inserts.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "peer_scale";
// Linear look-ups in some providers would take hours for a million.
constexpr int kPatienceSeconds = 20;
constexpr uint32_t kQuickPeers = 100'000;
constexpr uint32_t kQuickSessions = 200;
// With buffers as they are by default; what their clients take is most of this machine's memory
// soon.
constexpr uint32_t kDefaultBufferSessions = 50;
constexpr char kBufferVariable[] = "FI_OFI_RXM_BUFFER_SIZE";
constexpr char kEagerVariable[] = "FI_OFI_RXM_EAGER_LIMIT";
constexpr char kSmallBuffers[] = "1024";

struct Settings {
  CommonOptions common;
  uint32_t peers = 1'000'000;
  uint32_t sessions = 1000;
};

CrowdOptions CrowdOf(const Settings& settings, const std::string& provider, uint32_t idle) {
  return {provider, settings.common.address, settings.common.client_core,
          settings.common.server_core, idle};
}

// Both sides of a connection must have the same.
void SetSmallBuffers() {
  setenv(kBufferVariable, kSmallBuffers, 1);
  setenv(kEagerVariable, kSmallBuffers, 1);
}

class Study {
 public:
  Study(const Settings& settings, Report* report)
      : settings_(settings),
        report_(report),
        peers_(report->AddTable("peers", "Addresses known to one endpoint, bytes per peer")),
        sessions_(report->AddTable(
            "sessions", "What one idle session adds to the worker's process, in bytes")) {}

  absl::Status Sessions(const std::string& provider) {
    const CrowdOptions options = CrowdOf(settings_, provider, settings_.sessions);
    const absl::StatusOr<HeldFigures> sessions = MeasureIdleSessions(options);
    if (!sessions.ok()) return sessions.status();
    if (!sessions->refused.empty()) {
      report_->Note(absl::StrCat(provider, ": of ", settings_.sessions, " idle sessions there are ",
                                 sessions->held, ": ", sessions->refused));
    }
    return Memory(provider, sessions->held, "small", sessions->bytes_each);
  }

  // With the buffers that users have.
  absl::Status SessionsWithDefaultBuffers(const std::string& provider) {
    unsetenv(kBufferVariable);
    unsetenv(kEagerVariable);
    const CrowdOptions options = CrowdOf(settings_, provider, kDefaultBufferSessions);
    const absl::StatusOr<HeldFigures> sessions = MeasureIdleSessions(options);
    SetSmallBuffers();
    if (!sessions.ok()) return sessions.status();
    Row& row = sessions_.rows.emplace_back();
    row.Label("provider", provider)
        .Label("sessions", int64_t{sessions->held})
        .Label("fabric_buffers", "default")
        .Value("process", sessions->bytes_each);
    return absl::OkStatus();
  }

  absl::Status Peers(const std::string& provider) {
    const absl::StatusOr<PeerFigures> figures =
        MeasurePeers(provider, settings_.common.address, settings_.peers, kPatienceSeconds);
    if (figures.status().code() == absl::StatusCode::kUnimplemented) {
      report_->Note(figures.status().message());
      return absl::OkStatus();
    }
    if (!figures.ok()) return figures.status();
    if (!figures->refused.empty()) {
      report_->Note(
          absl::StrCat(provider, ": no more than ", figures->peers, " peers: ", figures->refused));
    }
    Row& row = peers_.rows.emplace_back();
    row.Label("provider", provider)
        .Label("peers", int64_t{figures->peers})
        .Value("our_bytes_per_peer", figures->our_bytes)
        .Value("provider_bytes_per_peer", figures->provider_bytes)
        .Value("inserts_per_s", figures->inserts_per_s)
        .Value("removals_per_s", figures->removals_per_s)
        .Value("polled_removals_per_s", figures->polled_removals_per_s)
        .Value("raw_inserts_per_s", figures->raw_inserts_per_s)
        .Value("raw_removals_per_s", figures->raw_removals_per_s)
        .Value("last_insert_p50_us", figures->last_inserts.p50)
        .Value("last_insert_p99_us", figures->last_inserts.p99)
        .Value("slowest_insert_us", figures->slowest_insert_us);
    return absl::OkStatus();
  }

 private:
  absl::Status Memory(const std::string& provider, uint32_t sessions, const std::string& buffers,
                      double process) {
    const CrowdOptions options = CrowdOf(settings_, provider, sessions);
    const absl::StatusOr<HeldFigures> raw = MeasureRawPeers(options);
    if (!raw.ok()) return raw.status();
    const absl::StatusOr<HeldFigures> leases = MeasureLeases(options);
    if (!leases.ok()) return leases.status();
    const absl::StatusOr<HeldFigures> ours = MeasureOurs(options);
    if (!ours.ok()) return ours.status();
    const double windows = 2.0 * kCrowdWindowBytes;
    Row& row = sessions_.rows.emplace_back();
    row.Label("provider", provider)
        .Label("sessions", int64_t{sessions})
        .Label("fabric_buffers", buffers)
        .Value("process", process)
        .Value("windows", windows)
        .Value("ours", ours->bytes_each)
        .Value("bootstrap", leases->bytes_each)
        .Value("provider_connection", raw->bytes_each)
        .Value("rest", process - windows - ours->bytes_each - leases->bytes_each - raw->bytes_each);
    return absl::OkStatus();
  }

  const Settings& settings_;
  Report* report_;
  Table& peers_;
  Table& sessions_;
};

absl::Status Run(const Settings& settings, Report* report) {
  Study study(settings, report);
  return MeasureEach(settings.common, [&](const std::string& provider) {
    absl::Status status = study.Sessions(provider);
    if (status.ok()) status = study.SessionsWithDefaultBuffers(provider);
    if (status.ok()) status = study.Peers(provider);
    return status;
  });
}

// Before anything of libfabric runs here.
void PrepareProcess() {
  SetSmallBuffers();
  AllowDescriptors();
}

int Main(int argc, char** argv) {
  CLI::App app("How many peers and sessions there can be, and what each costs.", kProgram);
  Settings settings;
  AddCommonOptions(&app, &settings.common);
  CLI::Option* peers =
      app.add_option("--peers", settings.peers, "addresses to insert")->capture_default_str();
  CLI::Option* sessions =
      app.add_option("--sessions", settings.sessions, "idle sessions of one executor")
          ->check(CLI::Range(10u, 60'000u))
          ->capture_default_str();
  app.footer("Exit status: 0 measured, 1 something failed, 2 bad arguments.");
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  if (settings.common.quick && peers->count() == 0) settings.peers = kQuickPeers;
  if (settings.common.quick && sessions->count() == 0) settings.sessions = kQuickSessions;
  PrepareProcess();
  absl::Status status = PinToCore(settings.common.client_core);
  Report report(kProgram, "How many peers and sessions can there be, and what does each cost?");
  if (status.ok()) {
    GatherConditions(settings.common, &report);
    report.Condition("windows", absl::StrCat(kCrowdWindowBytes, " B per session and direction"));
    report.Condition("fabric buffers", absl::StrCat(kBufferVariable, "=", kSmallBuffers,
                                                    " on both sides, unless it says default"));
    report.Note(
        "ours: what operator new handed out in a process with a worker and nothing else. "
        "bootstrap: growth of a worker's process per lease without a session. "
        "provider_connection: growth of a process with one plain endpoint per peer that has "
        "exchanged a message with it. rest: what these do not explain.");
    report.AddPlot(
        {"Our memory for each peer", "peers", "peers", "our_bytes_per_peer", {"provider"}});
    status = Run(settings, &report);
  }
  return Finish(settings.common, report, status);
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
