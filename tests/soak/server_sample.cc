#include "tests/soak/server_sample.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace invoker::soak {
namespace {

// What allocators and gRPC keep for next time: at first with every client, and in the end no more.
// A session of these servers has 512 KB of windows.
constexpr int64_t kResidentSlackKb = 6 * 1024;
constexpr int64_t kResidentSlackOfClientKb = 32;
constexpr int64_t kMostResidentSlackKb = 24 * 1024;
constexpr int64_t kDescriptorSlack = 4;
// gRPC starts more when several requests come at a time, each with mappings of its own.
constexpr int64_t kThreadSlack = 8;
constexpr int64_t kMappingSlack = 24;

int64_t CountFiles(const std::string& directory) {
  int64_t count = 0;
  std::error_code error;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    ++count;
  }
  return count;
}

int64_t CountLines(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  int64_t count = 0;
  while (std::getline(file, line)) ++count;
  return count;
}

int64_t StatusField(pid_t pid, absl::string_view field) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  std::string line;
  while (std::getline(file, line)) {
    if (absl::StartsWith(line, field)) return std::stoll(line.substr(field.size() + 1));
  }
  return 0;
}

std::string Grew(absl::string_view what, int64_t before, int64_t after, int64_t slack) {
  if (after <= before + slack) return "";
  return absl::StrCat(what, " grew from ", before, " to ", after, ", and may by ", slack, "; ");
}

}  // namespace

ServerSample Sample(pid_t server, const faults::LiveCounts& counts) {
  ServerSample sample;
  sample.resident_kb = StatusField(server, "VmRSS:");
  sample.threads = StatusField(server, "Threads:");
  sample.descriptors = CountFiles(absl::StrCat("/proc/", server, "/fd"));
  sample.mappings = CountLines(absl::StrCat("/proc/", server, "/maps"));
  sample.endpoints = counts.endpoints;
  sample.regions = counts.regions;
  sample.addresses = counts.addresses;
  return sample;
}

std::string Growth(const ServerSample& before, const ServerSample& after, int64_t clients,
                   int64_t lost) {
  const int64_t resident_slack_kb =
      std::min(kResidentSlackKb + clients * kResidentSlackOfClientKb, kMostResidentSlackKb);
  // A sanitizer keeps what has been freed, and maps memory of its own.
  const std::string memory =
      getenv("INVOKER_SANITIZER") != nullptr
          ? ""
          : absl::StrCat(Grew("resident memory (KB)", before.resident_kb, after.resident_kb,
                              resident_slack_kb),
                         Grew("mappings", before.mappings, after.mappings, kMappingSlack));
  return absl::StrCat(memory,
                      Grew("descriptors", before.descriptors, after.descriptors, kDescriptorSlack),
                      Grew("threads", before.threads, after.threads, kThreadSlack),
                      Grew("endpoints", before.endpoints, after.endpoints, 0),
                      Grew("registrations", before.regions, after.regions, 0),
                      Grew("addresses", 0, after.addresses, lost));
}

}  // namespace invoker::soak
