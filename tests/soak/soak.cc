// soak: a real invoker_server under clients that come, go and are killed, for as long as wanted.
// Prints what the server holds at intervals, and at the end whether anything grew, any byte was
// wrong, or any call was lost or run twice. Exit status 1 if so.
//
// Its server has tests/faults' library preloaded, which counts what is open in libfabric.
// Deterministic from --seed as far as the order goes in which processes run.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/transport/base/shared_files.h"
#include "tests/integration/server_process.h"
#include "tests/soak/bills.h"
#include "tests/soak/ledger.h"
#include "tests/soak/ledger_check.h"
#include "tests/soak/server_sample.h"
#include "tests/soak/soak_client.h"
#include "tests/soak/soak_report.h"
#include "tools/options.h"

namespace invoker::soak {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(10);
// An idle server has let go of everything within this, or does not.
// What servers keep anew for each client has mostly come by then.
constexpr uint64_t kWarmUpClients = 40;
constexpr absl::Duration kIdlePatience = absl::Seconds(90);
// What is retired stays for ten seconds.
constexpr absl::Duration kRetirement = absl::Seconds(11);

struct Options {
  std::string provider = "tcp;ofi_rxm";
  absl::Duration duration = absl::Minutes(1);
  absl::Duration interval = absl::Seconds(10);
  uint64_t seed = 1;
  int clients = 4;
  std::string json;
};

struct Living {
  std::unique_ptr<ChildProcess> process;
  uint64_t number;
  std::string kind;
  uint64_t kill_after;  // answers; 0: it lives
};

// In /dev/shm, with who left them. The number of a process may be another's by now: in an hour on a
// busy machine there are many.
std::vector<std::string> FilesLeftBy(const std::map<pid_t, std::string>& processes) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    pid_t pid = 0;
    const std::string name = entry.path().filename().string();
    if (sscanf(name.c_str(), "invoker.%*u.%d.", &pid) != 1) continue;
    const std::string lives = transport::SharedFilePrefix(pid);
    if (!lives.empty() && absl::StartsWith(name, lives)) continue;
    if (const auto it = processes.find(pid); it != processes.end()) {
      files.push_back(absl::StrCat(name, " of ", it->second));
    }
  }
  return files;
}

class Soak {
 public:
  explicit Soak(const Options& options) : options_(options), random_(options.seed) {}
  ~Soak() {
    clients_.clear();
    server_.reset();
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }

  absl::Status Start();
  void Run();
  // The exit status.
  int Report();

 private:
  absl::Status StartClient();
  void LookAtClients();
  void Add(const ClientRecord& record);
  void Take(const Living& client, int status);
  void TakeKilled();
  void TakeLeases();
  bool AllAreBilled();
  bool RunFor(absl::Duration duration);
  void WaitUntilNobodyIsLeft();
  ServerSample WaitUntilIdle();
  void Print(absl::string_view state, const ServerSample& sample) {
    report_.Line(state, sample, started_, report_.totals.killed + killed_.size());
  }
  void Violation(const std::string& what) { report_.Violation(what); }

  const Options options_;
  std::mt19937_64 random_;
  std::string directory_;
  std::string ledger_path_;
  ClientRecord* ledger_ = nullptr;
  const faults::LiveCounts* counts_ = nullptr;
  std::unique_ptr<Bills> bills_;
  std::unique_ptr<ServerProcess> server_;
  std::vector<Living> clients_;
  std::vector<uint64_t> killed_;        // and not looked at yet
  std::vector<uint64_t> leases_;        // whose clients have ended well; and not billed yet
  std::map<pid_t, std::string> ended_;  // clients' processes, and who they were
  uint64_t started_ = 0;
  SoakReport report_;
};

absl::Status Soak::Start() {
  std::string pattern = "/tmp/invoker_soak_XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return absl::InternalError("mkdtemp");
  directory_ = pattern;
  ledger_path_ = directory_ + "/ledger";
  ledger_ = MapLedger(ledger_path_, /*create=*/true);
  if (ledger_ == nullptr) return absl::InternalError("cannot map " + ledger_path_);
  const std::string counts_path = directory_ + "/counts";
  const int fd = open(counts_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(faults::LiveCounts)) != 0) {
    return absl::InternalError("cannot make " + counts_path);
  }
  void* const counts = mmap(nullptr, sizeof(faults::LiveCounts), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (counts == MAP_FAILED) return absl::InternalError("cannot map " + counts_path);
  counts_ = static_cast<const faults::LiveCounts*>(counts);
  const std::string usage_path = directory_ + "/usage";
  bills_ = std::make_unique<Bills>(usage_path);
  ServerProcessOptions server;
  server.provider = options_.provider;
  server.window = "256K";
  server.executors = 2;
  server.functions = {"tests/soak/soak_functions.so"};
  server.more = {"--lease-cores=4",   "--lease-memory=4G",          "--executor-user=",
                 "--bulk-memory=64M", "--usage-file=" + usage_path, "--peer-timeout=20s"};
  // A check of endpoints opens one for a moment, and the first ones take memory that stays: whether
  // a sample sees them would be chance.
  server.more.push_back("--endpoint-check=inf");
  server.more[2] += getenv("USER") != nullptr && geteuid() != 0 ? getenv("USER") : "root";
  server.environment = {
      absl::StrCat(kLedgerVariable, "=", ledger_path_),
      absl::StrCat(faults::kCountsVariable, "=", counts_path),
      absl::StrCat("LD_PRELOAD=",
                   std::filesystem::absolute("tests/faults/faulty_fabric.so").string())};
  absl::StatusOr<std::unique_ptr<ServerProcess>> started = ServerProcess::Start(server);
  if (!started.ok()) return started.status();
  server_ = *std::move(started);
  return absl::OkStatus();
}

absl::Status Soak::StartClient() {
  if (started_ >= kMostClients) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the ledger has room for ", kMostClients,
                     " clients, and so many have been; a shorter --duration needs fewer"));
  }
  Living client;
  client.number = started_++;
  const uint64_t calls = 20 + random_() % 300;
  const uint64_t seed = random_();
  const uint64_t draw = random_() % 12;
  client.kill_after = 0;
  client.kind = draw == 0 ? "lease" : draw == 1 ? "dropped_lease" : "session";
  if (draw >= 9) {
    // A client of shm that is killed while it posts may hold the lock of the server's queue in
    // shared memory, and cost the others their sessions: there it ends between two posts.
    if (options_.provider == "shm") {
      client.kind = "doomed";
    } else {
      client.kill_after = 1 + random_() % calls;
    }
  }
  ChildProcess::Options child;
  child.command = {"/proc/self/exe",   kClientFlag,         server_->address(),
                   options_.provider,  ledger_path_,        absl::StrCat(client.number),
                   absl::StrCat(seed), absl::StrCat(calls), client.kind};
  absl::StatusOr<std::unique_ptr<ChildProcess>> started = ChildProcess::Start(child);
  if (!started.ok()) {
    return absl::Status(
        started.status().code(),
        absl::StrCat("client ", client.number, " cannot be started: ", started.status().message()));
  }
  client.process = *std::move(started);
  clients_.push_back(std::move(client));
  return absl::OkStatus();
}

void Soak::Add(const ClientRecord& record) {
  report_.totals.sent += record.sent;
  report_.totals.answered += record.answered;
  report_.totals.executed += record.executed;
}

// Takes what a client has left that has ended by itself.
void Soak::Take(const Living& client, int status) {
  const ClientRecord& record = ledger_[client.number];
  ++(client.kind == "session" ? report_.totals.sessions
     : client.kind == "lease" ? report_.totals.leases
                              : report_.totals.dropped_leases);
  Add(record);
  const std::string who = absl::StrCat("client ", client.number, " (", client.kind, "): ");
  if (record.wrong != 0) Violation(who + "wrong bytes");
  if (status != 0) {
    Violation(absl::StrCat(who, "exit status ", status, ": ", client.process->Errors()));
  } else if (const std::string wrong = WrongCall(record, /*killed=*/false); !wrong.empty()) {
    Violation(who + wrong);
  } else if (client.kind != "session") {
    leases_.push_back(client.number);
    if (client.kind == "lease" && record.billed != record.executed) {
      Violation(absl::StrCat(who, record.executed.load(), " calls executed, and it was told of ",
                             record.billed.load(), " on its bill"));
    }
  }
}

bool Soak::AllAreBilled() {
  bills_->Read();
  return std::all_of(leases_.begin(), leases_.end(),
                     [this](uint64_t client) { return bills_->CallsOf(client).has_value(); });
}

// Once the server has had the time to notice the end of every one.
void Soak::TakeLeases() {
  bills_->Read();
  for (const uint64_t number : leases_) {
    const ClientRecord& record = ledger_[number];
    const absl::optional<uint64_t> billed = bills_->CallsOf(number);
    report_.totals.billed += billed.value_or(0);
    if (billed == record.executed) continue;
    Violation(absl::StrCat("lease of client ", number, ": ", record.executed.load(),
                           " calls executed, ", billed.has_value() ? absl::StrCat(*billed) : "none",
                           " billed"));
  }
  leases_.clear();
}

// Once nothing of theirs can run any more.
void Soak::TakeKilled() {
  for (const uint64_t number : killed_) {
    const ClientRecord& record = ledger_[number];
    ++report_.totals.killed;
    Add(record);
    if (record.wrong != 0) Violation(absl::StrCat("killed client ", number, ": wrong bytes"));
    if (const std::string wrong = WrongCall(record, /*killed=*/true); !wrong.empty()) {
      Violation(absl::StrCat("killed client ", number, ": ", wrong));
    }
  }
  killed_.clear();
}

void Soak::LookAtClients() {
  for (size_t i = 0; i < clients_.size();) {
    Living& client = clients_[i];
    if (client.kill_after != 0 && ledger_[client.number].answered >= client.kill_after) {
      client.process->Signal(SIGKILL);
      client.kill_after = 0;
    }
    siginfo_t ended = {};
    if (waitid(P_PID, static_cast<id_t>(client.process->pid()), &ended,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
        ended.si_pid == 0) {
      ++i;
      continue;
    }
    const int status = client.process->Wait();
    ended_[client.process->pid()] =
        absl::StrCat("client ", client.number, " (", client.kind, "), exit status ", status);
    if (status == 128 + SIGKILL) {
      killed_.push_back(client.number);
    } else {
      Take(client, status);
    }
    clients_.erase(clients_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Soak::WaitUntilNobodyIsLeft() {
  while (!clients_.empty()) {
    LookAtClients();
    absl::SleepFor(kLook);
  }
}

// What is there once the last client has gone, and what sessions had is no longer retired.
ServerSample Soak::WaitUntilIdle() {
  WaitUntilNobodyIsLeft();
  absl::SleepFor(kRetirement);
  const absl::Time give_up = absl::Now() + kIdlePatience;
  ServerSample sample = Sample(server_->pid(), *counts_);
  // An executor without sessions looks at its endpoint seldom, and lets go of addresses only after
  // many looks. Those of peers that died with operations under way, some fabrics keep.
  const auto kept = static_cast<int64_t>(report_.totals.killed + killed_.size());
  while ((sample.regions > 0 || sample.addresses > kept || !FilesLeftBy(ended_).empty() ||
          !AllAreBilled()) &&
         absl::Now() < give_up) {
    absl::SleepFor(kLook);
    sample = Sample(server_->pid(), *counts_);
  }
  TakeKilled();
  TakeLeases();
  return sample;
}

// False if no more clients can be started, which has been said then.
bool Soak::RunFor(absl::Duration duration) {
  const absl::Time end = absl::Now() + duration;
  absl::Time next_sample = absl::Now() + options_.interval;
  while (absl::Now() < end) {
    while (clients_.size() < static_cast<size_t>(options_.clients)) {
      if (const absl::Status started = StartClient(); !started.ok()) {
        Violation(started.ToString());
        return false;
      }
    }
    LookAtClients();
    if (absl::Now() >= next_sample) {
      Print("busy", Sample(server_->pid(), *counts_));
      next_sample += options_.interval;
    }
    absl::SleepFor(kLook);
  }
  return true;
}

// The first quarter warms up what allocators, gRPC and the fabric keep, and lasts until as many
// clients as it takes have been.
void Soak::Run() {
  Print("start", Sample(server_->pid(), *counts_));
  bool goes_on = RunFor(options_.duration / 4);
  while (goes_on && started_ < kWarmUpClients) goes_on = RunFor(absl::Seconds(1));
  const ServerSample before = WaitUntilIdle();
  Print("idle", before);
  const uint64_t started_before = started_;
  if (goes_on) RunFor(options_.duration * 3 / 4);
  const ServerSample after = WaitUntilIdle();
  Print("idle", after);
  const std::string growth = Growth(before, after, static_cast<int64_t>(started_ - started_before),
                                    static_cast<int64_t>(report_.totals.killed));
  if (!growth.empty()) Violation(growth);
  if (after.regions > 0) Violation(absl::StrCat(after.regions, " registrations of nobody"));
  for (const std::string& file : FilesLeftBy(ended_)) Violation("left in /dev/shm: " + file);
}

int Soak::Report() {
  const int status = server_->Stop();
  if (status != 0) {
    Violation(absl::StrCat("the server ended with status ", status, ": ", server_->log()));
  }
  const std::map<pid_t, std::string> server = {{server_->pid(), "the server"}};
  for (const std::string& file : FilesLeftBy(server)) Violation("left in /dev/shm: " + file);
  if (report_.totals.killed == 0 || report_.totals.sessions == 0)
    Violation("too short to have shown anything");
  return report_.Finish(options_.provider, options_.seed, options_.json);
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("A real server under clients that come, go and are killed.", "soak");
  app.add_option("--provider", options.provider, "libfabric's name of the fabric");
  tools::AddDuration(&app, "--duration", &options.duration, "how long clients come");
  tools::AddDuration(&app, "--interval", &options.interval, "between two lines of the table");
  app.add_option("--seed", options.seed, "of what the clients do");
  app.add_option("--clients", options.clients, "processes at a time")->check(CLI::Range(1, 100));
  app.add_option("--json", options.json, "file for the result");
  if (const int status = tools::Parse(&app, argc, argv); status >= 0) return status;
  Soak soak(options);
  if (const absl::Status status = soak.Start(); !status.ok()) {
    std::fprintf(stderr, "soak: %s\n", status.ToString().c_str());
    return tools::kExitFailed;
  }
  soak.Run();
  return soak.Report();
}

}  // namespace
}  // namespace invoker::soak

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == invoker::soak::kClientFlag) {
    return invoker::soak::RunClient(argc, argv);
  }
  return invoker::soak::Main(argc, argv);
}
