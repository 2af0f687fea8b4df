// `invoker fabrics` for people: no line is longer than 100 columns.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/invoker_fabrics.h"

namespace invoker::tools {
namespace {

using transport::FabricReport;
using transport::SelfTestResult;

constexpr size_t kWidth = 100;
constexpr size_t kIndent = 16;

// Fabrics that differ in their addresses only.
using Group = std::vector<const FabricReport*>;

// "  label         words, and where they are many, more of them below"
void AppendWrapped(std::string* text, absl::string_view label, absl::string_view words) {
  std::string line = absl::StrFormat("  %-*s", static_cast<int>(kIndent) - 3, label);
  bool empty = true;
  for (const absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    if (!empty && line.size() + 1 + word.size() > kWidth) {
      absl::StrAppend(text, line, "\n");
      line = std::string(kIndent - 1, ' ');
    }
    absl::StrAppend(&line, " ", word);
    empty = false;
  }
  absl::StrAppend(text, line, "\n");
}

void AppendDecision(std::string* text, absl::string_view label,
                    const transport::Decision& decision) {
  AppendWrapped(text, label, absl::StrCat(decision.choice, ": ", decision.why));
}

// The names of `all` that matter to Invoker.
std::string Only(const std::vector<std::string>& all, const std::vector<std::string>& wanted) {
  std::vector<std::string> found;
  for (const std::string& name : wanted) {
    if (std::find(all.begin(), all.end(), name) != all.end()) found.push_back(name);
  }
  return found.empty() ? "none" : absl::StrJoin(found, " ");
}

std::string Bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  // Limits are powers of two, or one less.
  while (unit + 1 < std::size(kUnits) && bytes >= 1024 && (bytes + 1) % 1024 <= 1) {
    bytes = (bytes + 1) / 1024;
    ++unit;
  }
  return absl::StrCat(bytes, " ", kUnits[unit]);
}

std::string MaxMessage(uint64_t bytes) {
  constexpr uint64_t kBeyondAnyMemory = uint64_t{1} << 60;
  return bytes >= kBeyondAnyMemory ? "without limit" : absl::StrCat("up to ", Bytes(bytes));
}

std::string ClaimsInWords(const transport::FabricClaims& claims) {
  return absl::StrCat(
      Only(claims.capabilities, {"MSG", "RMA", "ATOMIC", "RMA_EVENT", "FENCE"}), "; ",
      claims.cq_data_bytes, "-byte immediates; order ", Only(claims.transmit_order, {"SAW", "SAS"}),
      "; mr_mode ", claims.memory_modes.empty() ? "none" : absl::StrJoin(claims.memory_modes, " "),
      "; inject ", Bytes(claims.inject_bytes), "; messages ", MaxMessage(claims.max_message_bytes),
      "; queues ", claims.transmit_depth, "/", claims.receive_depth, "; progress ",
      claims.data_progress);
}

std::string LinkInWords(const transport::LinkFacts& link) {
  std::vector<std::string> parts;
  if (!link.device.empty()) parts.push_back(link.device);
  if (!link.type.empty()) parts.push_back(link.type);
  if (!link.state.empty()) parts.push_back(link.state);
  if (link.bits_per_second > 0) {
    parts.push_back(absl::StrFormat("%g Gbit/s", link.bits_per_second / 1e9));
  }
  if (link.mtu > 0) parts.push_back(absl::StrCat("MTU ", link.mtu));
  return absl::StrJoin(parts, ", ");
}

std::string SelfTestInWords(const SelfTestResult& seen) {
  if (!seen.status.ok()) return "self-test failed";
  return absl::StrFormat("self-test ok, %.1f us", seen.round_trip_us);
}

void AppendFabric(std::string* text, const FabricReport& fabric) {
  const std::string where = fabric.address.empty()
                                ? absl::StrCat(fabric.domain, " (", fabric.address_format, ")")
                                : absl::StrCat(fabric.interface, " ", fabric.address);
  std::vector<std::string> parts = {where};
  if (std::string link = LinkInWords(fabric.link); !link.empty()) parts.push_back(link);
  if (fabric.observed.has_value()) parts.push_back(SelfTestInWords(*fabric.observed));
  AppendWrapped(text, "at", absl::StrJoin(parts, ", "));
  if (!fabric.usable.ok()) AppendWrapped(text, "", fabric.usable.message());
  if (fabric.observed.has_value() && !fabric.observed->status.ok()) {
    AppendWrapped(text, "", fabric.observed->status.message());
  }
}

void AppendObserved(std::string* text, const SelfTestResult& seen) {
  std::vector<std::string> parts = {
      absl::StrCat("immediates ", seen.immediate_crossed ? "cross" : seen.immediate_failure),
      absl::StrCat("send-after-write ",
                   seen.send_after_write_crossed ? "crosses" : seen.send_after_write_failure)};
  if (seen.entry_seen) {
    parts.push_back(absl::StrCat(seen.immediate_bytes, " bytes of immediate arrive, ",
                                 seen.entry_length_right ? "with" : "without", " the length, ",
                                 seen.entry_names_source ? "with" : "without", " the source"));
  }
  parts.push_back(
      absl::StrCat(seen.sends_overtook, " of ", seen.sends_tried, " sends overtook their write"));
  parts.push_back(absl::StrCat("atomics: ", transport::AtomicsName(seen.atomics)));
  parts.push_back(absl::StrFormat("an arrival %s a sleep (%.0f us)",
                                  seen.wait_woke ? "ended" : "did not end", seen.wake_us));
  parts.push_back(
      absl::StrFormat("round trip %.1f us on one thread (not a benchmark)", seen.round_trip_us));
  AppendWrapped(text, "observed", absl::StrJoin(parts, "; "));
}

// What stands for the group: the first that works, else the first.
const FabricReport& BestOf(const Group& group) {
  for (const FabricReport* fabric : group) {
    if (fabric->usable.ok() && fabric->observed.has_value() && fabric->observed->status.ok()) {
      return *fabric;
    }
  }
  for (const FabricReport* fabric : group) {
    if (fabric->usable.ok()) return *fabric;
  }
  return *group.front();
}

void AppendGroup(std::string* text, const Group& group) {
  const FabricReport& best = BestOf(group);
  absl::StrAppend(text, "\n", best.provider, " (provider version ", best.provider_version,
                  ", protocol ", best.protocol, " version ", best.protocol_version, ")\n");
  for (const FabricReport* fabric : group) AppendFabric(text, *fabric);
  AppendWrapped(text, "claims", ClaimsInWords(best.claims));
  if (!best.usable.ok()) return;
  if (best.observed.has_value() && best.observed->status.ok()) {
    AppendObserved(text, *best.observed);
  }
  AppendDecision(text, "notification", DecideNotification(best));
  AppendDecision(text, "fallback", DecideFallback(best));
  AppendDecision(text, "keys", DecideKeys(best));
  AppendDecision(text, "addressing", DecideAddressing(best));
  AppendDecision(text, "atomics", DecideAtomics(best));
  AppendDecision(text, "wait", DecideWait(best));
  AppendDecision(text, "long messages", DecideMethod(best));
}

std::string AutoInWords(const FabricReport& fabric) {
  return fabric.profile.auto_rank == 0 ? "by name" : absl::StrCat(fabric.profile.auto_rank);
}

std::string SelfTestsOf(const Group& group) {
  size_t tried = 0;
  size_t passed = 0;
  for (const FabricReport* fabric : group) {
    if (!fabric->observed.has_value()) continue;
    ++tried;
    if (fabric->observed->status.ok()) ++passed;
  }
  return tried == 0 ? "-" : absl::StrCat(passed, " of ", tried);
}

std::string FirstWord(const std::string& text) { return text.substr(0, text.find_first_of(",:")); }

void AppendTable(std::string* text, const std::vector<Group>& groups) {
  std::vector<std::vector<std::string>> rows = {{"PROVIDER", "AT", "NOTIFICATION", "KEYS",
                                                 "ADDRESSING", "ATOMICS", "WAIT", "EVIDENCE",
                                                 "AUTO", "SELF-TEST"}};
  for (const Group& group : groups) {
    const FabricReport& best = BestOf(group);
    const std::string at = absl::StrCat(group.size(), group.size() == 1 ? " place" : " places");
    if (!best.usable.ok()) {
      rows.push_back({best.provider, at, "unusable", "", "", "", "", "", "", "-"});
      continue;
    }
    rows.push_back({best.provider, at, FirstWord(DecideNotification(best).choice),
                    FirstWord(DecideKeys(best).choice), DecideAddressing(best).choice,
                    DecideAtomics(best).choice, DecideWait(best).choice,
                    std::string(EvidenceName(best.profile.evidence)), AutoInWords(best),
                    SelfTestsOf(group)});
  }
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppendFormat(&line, "%-*s  ", static_cast<int>(widths[i]), row[i]);
    }
    absl::StrAppend(text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
}

std::vector<Group> GroupUp(const std::vector<FabricReport>& fabrics) {
  std::vector<std::pair<std::string, Group>> groups;
  for (const FabricReport& fabric : fabrics) {
    const std::string kind =
        absl::StrCat(fabric.provider, "\n", fabric.protocol, "\n", ClaimsInWords(fabric.claims));
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == kind; });
    if (found == groups.end()) found = groups.insert(groups.end(), {kind, {}});
    found->second.push_back(&fabric);
  }
  std::vector<Group> result;
  for (auto& group : groups) result.push_back(std::move(group.second));
  return result;
}

void AppendDevice(std::string* text, const transport::RdmaDevice& device) {
  absl::StrAppend(text, "\nRDMA device ", device.name, " (", device.node_type, ")\n");
  if (!device.problem.ok()) {
    AppendWrapped(text, "problem", device.problem.message());
    return;
  }
  for (const transport::RdmaPort& port : device.ports) {
    AppendWrapped(text, absl::StrCat("port ", port.number),
                  absl::StrFormat("%s, %s, %g Gbit/s, MTU %d%s", port.link_layer, port.state,
                                  port.gigabits_per_second, port.mtu_bytes,
                                  port.network_interface.empty()
                                      ? ""
                                      : absl::StrCat(", interface ", port.network_interface)));
  }
}

void AppendServer(std::string* text, const FabricsOutcome& outcome) {
  absl::StrAppend(text, "\nWorker ", outcome.server, "\n");
  for (const ServerFabric& fabric : outcome.server_fabrics) {
    std::string words;
    if (fabric.status.ok()) {
      words = absl::StrFormat("ok, %s, median of %d round trips %.1f us (not a benchmark)",
                              fabric.notification, fabric.pings, fabric.round_trip_us);
      if (!fabric.downgrade_reason.empty()) {
        absl::StrAppend(&words, "; note: ", fabric.downgrade_reason);
      }
    } else {
      words = absl::StrCat("failed: ", fabric.status.message());
    }
    AppendWrapped(text, fabric.provider, words);
  }
}

}  // namespace

std::string FabricsAsText(const FabricsOutcome& outcome) {
  std::string text;
  const std::vector<Group> groups = GroupUp(outcome.fabrics);
  if (!groups.empty()) AppendTable(&text, groups);
  for (const Group& group : groups) AppendGroup(&text, group);
  for (const transport::RdmaDevice& device : outcome.devices) AppendDevice(&text, device);
  if (!outcome.server.empty()) AppendServer(&text, outcome);
  if (!outcome.absent.empty()) {
    std::vector<std::string> names;
    for (const AbsentProvider& absent : outcome.absent) names.push_back(absent.provider);
    absl::StrAppend(&text, "\n");
    AppendWrapped(&text, "not here",
                  absl::StrCat(absl::StrJoin(names, ", "),
                               ". --provider=NAME says what each of them needs."));
  }
  if (!outcome.environment.variables.empty()) {
    AppendWrapped(&text, "environment", absl::StrJoin(outcome.environment.variables, ", "));
  }
  return text;
}

}  // namespace invoker::tools
