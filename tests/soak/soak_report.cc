#include "tests/soak/soak_report.h"

#include <cstdio>
#include <fstream>

#include "tools/options.h"

namespace invoker::soak {

void SoakReport::Violation(const std::string& what) {
  std::printf("VIOLATION: %s\n", what.c_str());
  violations_.push_back(what);
}

void SoakReport::Line(absl::string_view state, const ServerSample& sample, uint64_t clients,
                      uint64_t killed) {
  const int64_t seconds = absl::ToInt64Seconds(absl::Now() - began_);
  if (rows_.empty()) {
    std::printf("%8s %-6s %8s %9s %9s %9s %9s %7s %5s %6s %7s %8s %9s\n", "seconds", "state",
                "clients", "killed", "calls", "executed", "rss_kb", "threads", "fds", "maps",
                "regions", "peers", "endpoints");
  }
  std::printf("%8lld %-6s %8llu %9llu %9llu %9llu %9lld %7lld %5lld %6lld %7lld %8lld %9lld\n",
              static_cast<long long>(seconds), std::string(state).c_str(),
              static_cast<unsigned long long>(clients), static_cast<unsigned long long>(killed),
              static_cast<unsigned long long>(totals.answered),
              static_cast<unsigned long long>(totals.executed),
              static_cast<long long>(sample.resident_kb), static_cast<long long>(sample.threads),
              static_cast<long long>(sample.descriptors), static_cast<long long>(sample.mappings),
              static_cast<long long>(sample.regions), static_cast<long long>(sample.addresses),
              static_cast<long long>(sample.endpoints));
  std::fflush(stdout);
  rows_.push_back({{"seconds", seconds},
                   {"state", std::string(state)},
                   {"clients", clients},
                   {"resident_kb", sample.resident_kb},
                   {"threads", sample.threads},
                   {"descriptors", sample.descriptors},
                   {"mappings", sample.mappings},
                   {"endpoints", sample.endpoints},
                   {"regions", sample.regions},
                   {"addresses", sample.addresses}});
}

int SoakReport::Finish(const std::string& provider, uint64_t seed, const std::string& json) const {
  std::printf(
      "%llu sessions, %llu leases, %llu leases not given back, %llu clients killed\n"
      "%llu calls sent, %llu answered, %llu executed, %llu of them on leases' bills\n%s\n",
      static_cast<unsigned long long>(totals.sessions),
      static_cast<unsigned long long>(totals.leases),
      static_cast<unsigned long long>(totals.dropped_leases),
      static_cast<unsigned long long>(totals.killed), static_cast<unsigned long long>(totals.sent),
      static_cast<unsigned long long>(totals.answered),
      static_cast<unsigned long long>(totals.executed),
      static_cast<unsigned long long>(totals.billed),
      violations_.empty() ? "no violation" : "FAILED");
  if (!json.empty()) {
    const nlohmann::ordered_json result = {{"provider", provider},
                                           {"seed", seed},
                                           {"sessions", totals.sessions},
                                           {"leases", totals.leases},
                                           {"dropped_leases", totals.dropped_leases},
                                           {"killed", totals.killed},
                                           {"sent", totals.sent},
                                           {"answered", totals.answered},
                                           {"executed", totals.executed},
                                           {"billed", totals.billed},
                                           {"violations", violations_},
                                           {"samples", rows_}};
    std::ofstream file(json);
    file << result.dump(2) << "\n";
    if (!file.good()) {
      std::fprintf(stderr, "soak: cannot write %s\n", json.c_str());
      return tools::kExitFailed;
    }
  }
  return violations_.empty() ? tools::kExitOk : tools::kExitFailed;
}

}  // namespace invoker::soak
