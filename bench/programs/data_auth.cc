// What do tags on messages cost? Blocking calls one after the other to a worker that busy-polls, in
// sessions without tags, with tags over headers, and with tags over whole messages, in turns.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/harness/distribution.h"
#include "bench/harness/interleave.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/programs/invoker_contender.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/log/log.h"
#include "src/transport/reactor/reactor.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "data_auth";
// What fits into a window of the default size.
constexpr size_t kMostBytes = 1 << 20;
constexpr DataAuth kAuths[] = {DataAuth::kOff, DataAuth::kHeader, DataAuth::kFull};

struct Settings {
  CommonOptions common;
  std::vector<size_t> sizes = {64, 1024, 4096, 65536, 1048576};
};

int Fail(const absl::Status& status) {
  LogError(status.message());
  return absl::IsInvalidArgument(status) ? tools::kExitUsage : tools::kExitFailed;
}

// Contenders of their own for each size: a request that fills its buffer goes from where it is.
absl::Status Measure(const Settings& settings, const std::string& provider, size_t bytes,
                     Table* table) {
  std::vector<std::unique_ptr<InvokerContender>> contenders;
  std::vector<Contender*> pointers;
  for (const DataAuth auth : kAuths) {
    InvokerContender::Options options;
    options.name = std::string(DataAuthName(auth));
    options.provider = provider;
    options.address = settings.common.address;
    options.core = settings.common.server_core;
    options.client.data_auth = auth;
    options.most_bytes = bytes;
    absl::StatusOr<std::unique_ptr<InvokerContender>> contender = InvokerContender::Start(options);
    if (!contender.ok()) return contender.status();
    if (absl::Status status = (*contender)->Verify({bytes}); !status.ok()) return status;
    contenders.push_back(*std::move(contender));
    pointers.push_back(contenders.back().get());
  }
  InterleavePlan plan;
  plan.sizes = {bytes};
  plan.rounds = settings.common.rounds;
  absl::StatusOr<std::vector<Measured>> measured = Interleave(pointers, plan);
  if (!measured.ok()) return measured.status();
  for (const Measured& one : *measured) {
    Row row;
    row.Label("provider", provider)
        .Label("data_auth", one.contender->name())
        .Label("bytes", static_cast<int64_t>(bytes))
        .Times(Summarize(one.rounds));
    table->rows.push_back(std::move(row));
  }
  return absl::OkStatus();
}

// Nanoseconds that one tag over a header and so many bytes of payload takes: the median of many
// runs, each of as many tags as take a tenth of a millisecond or so.
double NanosecondsOfATag(size_t payload_bytes) {
  constexpr int kRuns = 201;
  constexpr size_t kBytesOfARun = 100'000;
  const DataKey key = {std::byte{1}, std::byte{2}, std::byte{3}};
  const MessageAuthenticator authenticator(DataAuth::kFull, key);
  std::vector<std::byte> message(kHeaderBytes + payload_bytes + kTagBytes);
  const size_t tags = std::max<size_t>(1, kBytesOfARun / message.size());
  std::vector<double> runs;
  for (int run = 0; run < kRuns; ++run) {
    const int64_t start_ns = transport::MonotonicNs();
    for (size_t i = 0; i < tags; ++i) {
      authenticator.Close(message.data(), static_cast<uint32_t>(payload_bytes));
    }
    runs.push_back(static_cast<double>(transport::MonotonicNs() - start_ns) /
                   static_cast<double>(tags));
  }
  std::nth_element(runs.begin(), runs.begin() + kRuns / 2, runs.end());
  return runs[kRuns / 2];
}

void MeasureTags(const Settings& settings, Table* table) {
  std::vector<size_t> sizes = settings.sizes;
  sizes.insert(sizes.begin(), 0);
  for (const size_t bytes : sizes) {
    Row row;
    row.Label("payload", static_cast<int64_t>(bytes)).Value("ns", NanosecondsOfATag(bytes));
    table->rows.push_back(std::move(row));
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Round trips of blocking calls to an invoker_server, with and without tags.",
               kProgram);
  Settings settings;
  AddCommonOptions(&app, &settings.common);
  app.add_option("--bytes", settings.sizes, "sizes of requests and responses")
      ->delimiter(',')
      ->check(CLI::Range(size_t{1}, kMostBytes))
      ->capture_default_str();
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  if (absl::Status status = PinToCore(settings.common.client_core); !status.ok()) {
    return Fail(status);
  }
  Report report(kProgram, "What do keyed tags on messages cost?");
  GatherConditions(settings.common, &report);
  report.Condition("calls", "blocking, one after the other; noop returns as many bytes as it got");
  MeasureTags(settings, &report.AddTable("tags", "One tag over a header and a payload (full)"));
  Table& table = report.AddTable("latency", "Round trips");
  report.AddPlot(
      {"Median round trip, us", "latency", "bytes", "p50_us", {"provider", "data_auth"}});
  for (const std::string& provider : settings.common.providers) {
    for (const size_t bytes : settings.sizes) {
      if (absl::Status status = Measure(settings, provider, bytes, &table); !status.ok()) {
        return Fail(status);
      }
    }
  }
  return Finish(settings.common, report);
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
