// What types add to a call: two arrays there and one back, as values and as the same bytes, from
// C++ and from Python, in turns.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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

constexpr char kProgram[] = "typed_calls";

using Array = ArrayView<const double>;
using First = TypedFunction<Array(Array, Array), Client>;

// The bytes of two arrays, in memory of the caller's; the response is left where it is.
class OfBytes : public Contender {
 public:
  OfBytes(Client* client, RemoteFunction half) : client_(client), half_(std::move(half)) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override { return absl::OkStatus(); }
  void End() override {}

  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override {
    const std::vector<std::byte> data(bytes);
    for (int64_t& time_ns : times_ns) {
      const int64_t begin_ns = transport::MonotonicNs();
      const absl::StatusOr<Response> response = client_->Invoke(half_, data);
      time_ns = transport::MonotonicNs() - begin_ns;
      if (!response.ok()) return response.status();
    }
    return absl::OkStatus();
  }

 private:
  const std::string name_ = "cpp_bytes";
  Client* const client_;
  const RemoteFunction half_;
};

// The arrays, and a view of the response.
class OfArrays : public Contender {
 public:
  explicit OfArrays(First first) : first_(std::move(first)) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override { return absl::OkStatus(); }
  void End() override {}

  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override {
    const std::vector<double> a(bytes / 16 - 1);
    const std::vector<double> b = a;
    for (int64_t& time_ns : times_ns) {
      const int64_t begin_ns = transport::MonotonicNs();
      const auto result = first_(a, b);
      time_ns = transport::MonotonicNs() - begin_ns;
      if (!result.ok()) return result.status();
    }
    return absl::OkStatus();
  }

 private:
  const std::string name_ = "cpp_typed";
  const First first_;
};

struct Pair {
  const char* language;
  const char* bytes;
  const char* typed;
};
constexpr std::array<Pair, 2> kPairs = {
    {{"C++", "cpp_bytes", "cpp_typed"}, {"Python", "half", "first"}}};

void AddRows(const std::string& provider, const std::vector<Measured>& measured, Table* table) {
  for (const Pair& pair : kPairs) {
    for (const Measured& typed : measured) {
      if (typed.contender->name() != pair.typed) continue;
      for (const Measured& bytes : measured) {
        if (bytes.contender->name() != pair.bytes || bytes.bytes != typed.bytes) continue;
        const Distribution times = Summarize(typed.rounds);
        table->rows.emplace_back()
            .Label("provider", provider)
            .Label("language", pair.language)
            .Label("bytes", static_cast<int64_t>(typed.bytes))
            .Value("bytes_p50_us", Summarize(bytes.rounds).p50)
            .Value("typed_p50_us", times.p50)
            .Value("more_ns", 1000 * MedianAbove(typed.rounds, bytes.rounds))
            .Times(times);
      }
    }
  }
}

absl::Status Measure(const CommonOptions& options, const std::string& provider, Table* table) {
  const absl::StatusOr<CalledServer> called = CalledServer::Start(options, provider);
  if (!called.ok()) return called.status();
  Client* const client = called->client.get();
  const absl::StatusOr<RemoteFunction> half = client->Function("half");
  if (!half.ok()) return half.status();
  const absl::StatusOr<First> first = client->Function<Array(Array, Array)>("first");
  if (!first.ok()) return first.status();

  OfBytes of_bytes(client, *half);
  OfArrays of_arrays(*first);
  PythonContender python_bytes(called->python.get(), "half");
  PythonContender python_typed(called->python.get(), "first");
  InterleavePlan plan;
  plan.sizes = {64, 1024, 4096, 65536};
  plan.rounds = options.rounds;
  if (options.quick) plan.turn_ns /= 2;
  const absl::StatusOr<std::vector<Measured>> measured =
      Interleave({&of_bytes, &of_arrays, &python_bytes, &python_typed}, plan);
  if (!measured.ok()) return measured.status();
  AddRows(provider, *measured, table);
  return absl::OkStatus();
}

absl::Status Run(const CommonOptions& options, Report* report) {
  if (absl::Status status = PinToCore(options.client_core); !status.ok()) return status;
  GatherConditions(options, report);
  report->Condition("function", "(f64[:], f64[:]) -> f64[:], and one of bytes with the same sizes");
  Table& table = report->AddTable("overhead", "Typed calls, less calls of the same bytes");
  const absl::Status measured = MeasureEach(
      options, [&](const std::string& provider) { return Measure(options, provider, &table); });
  if (!measured.ok()) return measured;
  report->Note(
      "more_ns: round by round, the median of the typed call less that of the call of bytes; the "
      "middle round's. Python's call of bytes returns new memory, and so does its typed call.");
  Plot plot;
  plot.title = "Typed calls (p50, us)";
  plot.table = "overhead";
  plot.x = "bytes";
  plot.y = "typed_p50_us";
  plot.series = {"provider", "language"};
  report->AddPlot(std::move(plot));
  return absl::OkStatus();
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What types add to a call: the same arrays as values and as bytes, in turns",
               bench::kProgram);
  bench::CommonOptions options;
  bench::AddCommonOptions(&app, &options);
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::Report report(bench::kProgram, "What do types add to a call?");
  return bench::Finish(options, report, bench::Run(options, &report));
}
