// `invoker top`: which functions run how often and how long, on one server or several, again and
// again. Rates and times are those since the look before.

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "src/cluster/member_watch.h"
#include "src/status/status_json.h"
#include "tools/interrupt.h"
#include "tools/invoker_cli.h"
#include "tools/status_text.h"
#include "tools/watched_servers.h"

namespace invoker::tools {
namespace {

using bootstrap::FunctionCounts;
using bootstrap::FunctionTable;

constexpr char kRow[] = "%-29s %-14s %8s %8s %8s %8s\n";
constexpr size_t kHead = 4;         // lines before the first function's
constexpr size_t kMostTrouble = 5;  // servers that are named because they do not answer
// A screen waits no longer for a server that does not answer, unless the interval is longer.
constexpr absl::Duration kPatience = absl::Seconds(1);

struct Settings {
  ServerSettings server;
  absl::Duration interval = absl::Seconds(1);
  std::string sort = "rate";
  uint32_t looks = 0;  // 0: until it is interrupted
};

using Looks = std::map<std::string, absl::StatusOr<ServerLook>>;  // by address

struct Row {
  FunctionTable::Key key;
  FunctionCounts since;  // the look before
  double rate = 0;
};

void Sort(const std::string& by, std::vector<Row>* rows) {
  const auto key = [&by](const Row& row) {
    if (by == "failed") return static_cast<double>(row.since.failures);
    if (by == "p50") return status::QuantileSeconds(row.since.time, 0.5);
    if (by == "p99") return status::QuantileSeconds(row.since.time, 0.99);
    return by == "name" ? 0 : row.rate;
  };
  std::stable_sort(rows->begin(), rows->end(),
                   [&key](const Row& a, const Row& b) { return key(a) > key(b); });
}

// The rows of a screen, of at most so many lines; the others are counted.
std::string ComposeRows(const std::vector<Row>& all, size_t most) {
  std::string text = absl::StrFormat(kRow, "FUNCTION", "FABRIC", "CALLS/S", "FAILED", "P50", "P99");
  // The last line says how many are left out.
  const size_t shown = all.size() <= most ? all.size() : most - 1;
  for (size_t i = 0; i < shown; ++i) {
    const Row& row = all[i];
    absl::StrAppendFormat(&text, kRow, ShowName(row.key.first, 29), ShowName(row.key.second, 14),
                          ShowCount(row.rate), ShowCount(static_cast<double>(row.since.failures)),
                          ShowTime(status::QuantileSeconds(row.since.time, 0.5)),
                          ShowTime(status::QuantileSeconds(row.since.time, 0.99)));
  }
  if (shown < all.size()) absl::StrAppend(&text, "and ", all.size() - shown, " more\n");
  return text;
}

// One screen, of so many lines.
std::string Compose(const Settings& settings, const Looks& looks, size_t lines) {
  std::vector<std::string> trouble;
  bootstrap::WorkerStatus sum;
  size_t answered = 0;
  std::map<FunctionTable::Key, Row> by_key;
  for (const auto& [address, look] : looks) {
    if (!look.ok()) {
      trouble.push_back(absl::StrCat(ShowName(look.status().message(), 80), "\n"));
      continue;
    }
    ++answered;
    const bootstrap::WorkerStatus& worker = look->status.worker;
    for (const auto& [part, all] :
         {std::pair(&worker.shared, &sum.shared), std::pair(&worker.leased, &sum.leased)}) {
      all->busy += part->busy;
      all->idle += part->idle;
      all->sessions += part->sessions;
    }
    sum.leases_own += worker.leases_own;
    sum.leases_waiting += worker.leases_waiting;
    for (const auto& [key, counts] : look->since) {
      Row& row = by_key[key];
      row.key = key;
      row.since.Add(counts);
      if (look->seconds > 0) row.rate += static_cast<double>(counts.calls) / look->seconds;
    }
  }
  std::vector<Row> rows;
  for (auto& [key, row] : by_key) rows.push_back(std::move(row));
  Sort(settings.sort, &rows);
  std::string text =
      absl::StrFormat("%d of %d servers; executors busy: %d of %d shared, %d of %d leased\n",
                      answered, looks.size(), sum.shared.busy, sum.shared.busy + sum.shared.idle,
                      sum.leased.busy, sum.leased.busy + sum.leased.idle);
  absl::StrAppend(&text, sum.shared.sessions + sum.leased.sessions, " sessions, ", sum.leases_own,
                  " leases with executors, ", sum.leases_waiting, " waiting\n\n");
  if (trouble.size() > kMostTrouble) {
    const size_t more = trouble.size() - kMostTrouble;
    trouble.resize(kMostTrouble);
    trouble.push_back(absl::StrCat("and ", more, " other servers that did not answer\n"));
  }
  const size_t taken = kHead + trouble.size();
  return absl::StrCat(text, ComposeRows(rows, lines > taken ? lines - taken : 1),
                      absl::StrJoin(trouble, ""));
}

// How many lines a terminal has; as many as there may be where there is none.
size_t LinesOf(int descriptor) {
  winsize size = {};
  const bool known = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return known ? size.ws_row : SIZE_MAX;
}

std::vector<std::string> AddressesOf(const std::vector<cluster::Member>& members) {
  std::vector<std::string> addresses;
  for (const cluster::Member& member : members) addresses.push_back(member.server);
  return addresses;
}

int Run(const Settings& settings) {
  absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> watch =
      cluster::MemberWatch::Start(settings.server.server, settings.server.client.cluster);
  if (!watch.ok()) return FailConnect(watch.status());
  const absl::Duration timeout = settings.server.client.connect_timeout;
  const absl::StatusOr<std::vector<cluster::Member>> members = (*watch)->AwaitMembers(timeout);
  if (!members.ok()) return FailConnect(members.status());
  WatchedServers servers(settings.server.client.credentials, timeout);
  servers.Keep(AddressesOf(*members));
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  Interrupt interrupt;
  const absl::Duration patience = std::max(settings.interval, kPatience);
  servers.Look(patience);
  for (uint32_t looks = 0; settings.looks == 0 || looks < settings.looks; ++looks) {
    // At once, whatever a server owes.
    if (interrupt.WaitFor(settings.interval)) std::_Exit(kExitOk);
    servers.Keep(AddressesOf((*watch)->Now()));
    const Looks answers = servers.Look(patience);
    // A line feed behind the last line would move all of them.
    std::string text = Compose(settings, answers, LinesOf(STDOUT_FILENO) - 1);
    // Home, and then each line over the one that is there: without a flicker.
    if (terminal) {
      text = absl::StrCat("\x1b[H", absl::StrReplaceAll(text, {{"\n", "\x1b[K\n"}}), "\x1b[J");
      if (looks == 0) text = absl::StrCat("\x1b[2J", text);
    } else {
      text += '\n';
    }
    if (absl::Status status = Print(text); !status.ok()) return Fail(status);
  }
  return kExitOk;
}

}  // namespace

Command AddTopCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "top",
      "Shows, again and again, how often each function runs and how long it takes, on one server "
      "or on several together. On a terminal each screen replaces the one before. Ctrl-C ends it.");
  AddServersOption(*command, &settings->server);
  AddDuration(*command, "--interval", &settings->interval, "how long to wait between two looks");
  (*command)
      ->add_option("--sort", settings->sort, "what the first function has most of")
      ->check(CLI::IsMember({"rate", "failed", "p50", "p99", "name"}))
      ->type_name("rate|failed|p50|p99|name")
      ->capture_default_str();
  (*command)
      ->add_option("--looks", settings->looks, "how many screens to show; 0: until Ctrl-C")
      ->type_name("N")
      ->capture_default_str();
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
