// What Python adds to a call: the same calls of one invoker_server, from this process and from a
// Python process on the same core, in turns. One blocks during the other's turn.

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/harness/distribution.h"
#include "bench/harness/interleave.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/programs/python_contender.h"
#include "invoker/client.h"
#include "src/transport/reactor/reactor.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "python_overhead";

constexpr size_t kLargest = 65536;

// The names are python_peer.py's.
struct Api {
  const char* name;
  const char* meaning;
};
constexpr Api kNothing = {"nothing", "no call"};
constexpr std::array<Api, 6> kApis = {{
    {"function_out", "function(data, out=bytearray)"},
    {"call_out", "client.call(name, data, out=bytearray)"},
    {"call_numpy", "client.call(name, array, out=array)"},
    {"call", "client.call(name, data), result in new memory"},
    {"submit", "client.submit(name, data).result()"},
    {"acall", "await client.acall(name, data)"},
}};

// A buffer in the request window, and the response left where it is: what C++ can do best.
class InPlace : public Contender {
 public:
  InPlace(Client* client, RemoteFunction noop, Buffer buffer)
      : client_(client), noop_(std::move(noop)), buffer_(std::move(buffer)) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override { return absl::OkStatus(); }
  void End() override {}

  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override {
    for (int64_t& time_ns : times_ns) {
      const int64_t begin_ns = transport::MonotonicNs();
      const absl::StatusOr<Response> response = client_->Invoke(noop_, {buffer_, bytes});
      time_ns = transport::MonotonicNs() - begin_ns;
      if (!response.ok()) return response.status();
    }
    return absl::OkStatus();
  }

 private:
  const std::string name_ = "cpp";
  Client* const client_;
  const RemoteFunction noop_;
  const Buffer buffer_;
};

// Copies the way Python has to: from memory of the caller's, and into it.
class Copying : public Contender {
 public:
  Copying(Client* client, RemoteFunction noop)
      : client_(client), noop_(std::move(noop)), input_(kLargest), output_(kLargest) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override { return absl::OkStatus(); }
  void End() override {}

  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override {
    for (int64_t& time_ns : times_ns) {
      const int64_t begin_ns = transport::MonotonicNs();
      const absl::StatusOr<Response> response = client_->Invoke(noop_, Bytes(input_.data(), bytes));
      if (!response.ok()) return response.status();
      memcpy(output_.data(), response->data().data(), response->size());
      time_ns = transport::MonotonicNs() - begin_ns;
    }
    return absl::OkStatus();
  }

 private:
  const std::string name_ = "cpp_copying";
  Client* const client_;
  const RemoteFunction noop_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

void AddRows(const std::string& provider, const std::vector<Measured>& measured, Table* table) {
  for (const Measured& python : measured) {
    if (python.contender->name() == "cpp" || python.contender->name() == kNothing.name) continue;
    for (const Measured& cpp : measured) {
      if (cpp.contender->name() != "cpp" || cpp.bytes != python.bytes) continue;
      const double cpp_us = Summarize(cpp.rounds).p50;
      const Distribution times = Summarize(python.rounds);
      table->rows.emplace_back()
          .Label("provider", provider)
          .Label("api", python.contender->name())
          .Label("bytes", static_cast<int64_t>(python.bytes))
          .Value("cpp_p50_us", cpp_us)
          .Value("python_p50_us", times.p50)
          .Value("minus_us", MedianAbove(python.rounds, cpp.rounds))
          .Times(times);
    }
  }
}

// The time of the loop without a call, over all sizes.
double NothingUs(const std::vector<Measured>& measured) {
  Rounds rounds;
  for (const Measured& one : measured) {
    if (one.contender->name() != kNothing.name) continue;
    rounds.insert(rounds.end(), one.rounds.begin(), one.rounds.end());
  }
  return Summarize(rounds).p50;
}

absl::Status Measure(const CommonOptions& options, const std::string& provider, Table* table,
                     Report* report) {
  const absl::StatusOr<CalledServer> called = CalledServer::Start(options, provider);
  if (!called.ok()) return called.status();
  Client* const client = called->client.get();
  const absl::StatusOr<RemoteFunction> noop = client->Function("noop");
  if (!noop.ok()) return noop.status();
  absl::StatusOr<Buffer> buffer = client->AllocateBuffer(kLargest);
  if (!buffer.ok()) return buffer.status();

  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(std::make_unique<InPlace>(client, *noop, *std::move(buffer)));
  contenders.push_back(std::make_unique<Copying>(client, *noop));
  for (const Api& api : kApis)
    contenders.push_back(std::make_unique<PythonContender>(called->python.get(), api.name));
  contenders.push_back(std::make_unique<PythonContender>(called->python.get(), kNothing.name));
  std::vector<Contender*> turns;
  for (const std::unique_ptr<Contender>& contender : contenders) turns.push_back(contender.get());
  InterleavePlan plan;
  plan.sizes = {0, 64, 4096, kLargest};
  plan.rounds = options.rounds;
  if (options.quick) plan.turn_ns /= 2;
  const absl::StatusOr<std::vector<Measured>> measured = Interleave(turns, plan);
  if (!measured.ok()) return measured.status();
  AddRows(provider, *measured, table);
  report->Note(absl::StrFormat(
      "%s: a timed loop of Python's without a call takes %.3f us at the median (two readings of "
      "the "
      "clock, and the method calls for them). It is in Python's times, and not subtracted.",
      provider, NothingUs(*measured)));
  return absl::OkStatus();
}

absl::Status Run(const CommonOptions& options, Report* report) {
  if (absl::Status status = PinToCore(options.client_core); !status.ok()) return status;
  GatherConditions(options, report);
  report->Condition("function", "noop: as many bytes as it got, untouched");
  Table& table = report->AddTable("overhead", "Python's calls, less C++'s in place");
  const absl::Status measured = MeasureEach(options, [&](const std::string& provider) {
    return Measure(options, provider, &table, report);
  });
  if (!measured.ok()) return measured;
  for (const Api& api : kApis) report->Note(absl::StrCat(api.name, ": ", api.meaning));
  report->Note(
      "cpp_copying is not Python: the same call from C++ with the caller's memory copied in and "
      "out, as Python's calls do. cpp_p50_us is C++ with a buffer in the window."
      " minus_us: round by round, the median of one less the median of the other; the middle "
      "round's.");
  Plot plot;
  plot.title = "What Python adds to a call (p50, us)";
  plot.table = "overhead";
  plot.x = "bytes";
  plot.y = "python_p50_us";
  plot.series = {"provider", "api"};
  report->AddPlot(std::move(plot));
  return absl::OkStatus();
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What Python adds to a call: the same one from C++ and from Python, in turns",
               bench::kProgram);
  bench::CommonOptions options;
  bench::AddCommonOptions(&app, &options);
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::Report report(bench::kProgram, "What does Python add to a call?");
  return bench::Finish(options, report, bench::Run(options, &report));
}
