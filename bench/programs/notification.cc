// What does it cost to tell a peer that bytes are there? Round trips of two endpoints in this
// process, for every way that a fabric has, and for growing messages.
//
// The ways take turns, a short burst each, so that whatever else the machine does falls on all of
// them alike: ratios between the columns of one run mean more than the times.

#include <pthread.h>
#include <sys/utsname.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/log/log.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/provider/provider_profile.h"
#include "src/transport/reactor/reactor.h"
#include "tools/latency_summary.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {
using transport::RemoteWindow;
using transport::SendOrder;

constexpr char kProgram[] = "notification";
constexpr size_t kLargest = 65536;
// A round trip that has not come back by then never will.
constexpr int64_t kGiveUpNs = 10'000'000'000;

struct Settings {
  std::vector<std::string> providers;
  std::string address = "127.0.0.1";
  std::vector<size_t> sizes = {64, 256, 1024, 4096, 8192, 16384};
  int rounds = 40;
  int burst = 50;
  int threads = 1;
  std::string json;
};

struct Way {
  const char* name;
  Notification notification;
  SendOrder order;
  bool eager;
  bool pieces = false;
};

constexpr Way kWays[] = {
    {"write_imm", Notification::kWriteImm, SendOrder::kPipelined, false},
    {"pieces", Notification::kWriteImm, SendOrder::kPipelined, false, true},
    {"pipelined", Notification::kSendAfterWrite, SendOrder::kPipelined, false},
    {"delivery", Notification::kSendAfterWrite, SendOrder::kAfterDelivery, false},
    {"eager", Notification::kSendAfterWrite, SendOrder::kAfterDelivery, true},
};

// One endpoint. In a run of two threads each has its own, and they share only the message.
class Side final : public transport::ReactorHandler, public transport::OperationOwner {
 public:
  static absl::StatusOr<std::unique_ptr<Side>> Open(const std::string& provider,
                                                    const std::string& address) {
    transport::FabricRequest request;
    request.provider = provider;
    if (transport::FindRow(provider).address_is_ip) request.address = address;
    absl::StatusOr<transport::FabricChoice> choice = transport::Discover(request);
    if (!choice.ok()) return choice.status();
    // The question is what its value ought to be.
    choice->profile.eager_bytes = kLargest;
    auto reactor = transport::Reactor::Open(*std::move(choice), transport::ReactorOptions());
    if (!reactor.ok()) return reactor.status();
    std::unique_ptr<Side> side(new Side(*std::move(reactor)));
    for (auto [region, use] : {std::pair(&side->window_, transport::RegionUse::kRemoteTarget),
                               std::pair(&side->source_, transport::RegionUse::kSource)}) {
      absl::StatusOr<transport::HostBuffer> buffer = transport::HostBuffer::Allocate(kLargest);
      if (!buffer.ok()) return buffer.status();
      auto registered = side->reactor_->Register(*std::move(buffer), use);
      if (!registered.ok()) return registered.status();
      *region = *std::move(registered);
    }
    return side;
  }

  // Not waited for in peace: what is under way may be anything once a run has failed.
  ~Side() override {
    reactor_->Retire(std::move(window_));
    reactor_->Retire(std::move(source_));
    transport::Reactor::Close(std::move(reactor_), false);
  }

  absl::Status Meet(const Side& other) {
    auto peer = reactor_->peers().Insert(other.reactor_->address());
    if (!peer.ok()) return peer.status();
    remote_ = {(*peer)->address, other.window_.remote_base(), other.window_.size(),
               other.window_.key()};
    return absl::OkStatus();
  }

  void Use(const Way& way, size_t bytes, bool answers) {
    notifier_ = transport::GetNotifier(way.notification, way.order);
    remote_.eager_bytes = way.eager ? static_cast<uint32_t>(kLargest) : 0;
    // Everything that is not injected whole.
    remote_.pieces_up_to = way.pieces ? kLargest : 0;
    bytes_ = bytes;
    answers_ = answers;
  }

  void Write() {
    while (!reactor_->PostWrite(notifier_, remote_, 0, source_.data(), source_.descriptor(), bytes_,
                                1, this, 0)) {
      reactor_->Poll();
    }
  }
  void Poll() { reactor_->Poll(); }
  bool idle() const { return reactor_->operations().outstanding() == 0; }
  uint64_t tokens() const { return tokens_; }
  const transport::Profile& profile() const { return reactor_->profile(); }
  const absl::Status& failure() const { return failure_; }

  void OnToken(uint64_t) override {
    ++tokens_;
    if (answers_) Write();
  }
  void OnTick(int64_t) override {}
  void OnOperationFailed(const transport::Operation&, const absl::Status& status) override {
    failure_ = status;
  }

 private:
  explicit Side(std::unique_ptr<transport::Reactor> reactor) : reactor_(std::move(reactor)) {
    reactor_->set_handler(this);
  }

  std::unique_ptr<transport::Reactor> reactor_;
  transport::MemoryRegion window_;
  transport::MemoryRegion source_;
  RemoteWindow remote_;
  const transport::Notifier* notifier_ = nullptr;
  size_t bytes_ = 0;
  bool answers_ = false;
  uint64_t tokens_ = 0;
  absl::Status failure_;
};

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu % static_cast<int>(std::thread::hardware_concurrency()), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

// `count` round trips, whose times are added to `times_ns`.
absl::Status Burst(Side* ping, Side* pong, bool poll_pong, int count,
                   std::vector<int64_t>* times_ns) {
  for (int i = 0; i < count; ++i) {
    const uint64_t before = ping->tokens();
    const int64_t begin = transport::MonotonicNs();
    ping->Write();
    while (ping->tokens() == before) {
      if (poll_pong) pong->Poll();
      ping->Poll();
      if (!ping->failure().ok()) return ping->failure();
      if (transport::MonotonicNs() - begin > kGiveUpNs) {
        return absl::DeadlineExceededError("a round trip did not come back");
      }
    }
    times_ns->push_back(transport::MonotonicNs() - begin);
  }
  return absl::OkStatus();
}

struct Pair {
  static absl::StatusOr<Pair> Open(const std::string& provider, const std::string& address) {
    absl::StatusOr<std::unique_ptr<Side>> ping = Side::Open(provider, address);
    if (!ping.ok()) return ping.status();
    absl::StatusOr<std::unique_ptr<Side>> pong = Side::Open(provider, address);
    if (!pong.ok()) return pong.status();
    if (absl::Status status = (*ping)->Meet(**pong); !status.ok()) return status;
    if (absl::Status status = (*pong)->Meet(**ping); !status.ok()) return status;
    return Pair{*std::move(ping), *std::move(pong)};
  }

  std::unique_ptr<Side> ping;
  std::unique_ptr<Side> pong;
};

struct Result {
  std::string provider;
  size_t bytes;
  const char* way;
  size_t samples;
  tools::LatencySummary latency;
};

absl::Status Measure(const std::string& provider, const Settings& settings,
                     std::vector<Result>* results) {
  absl::StatusOr<Pair> pair = Pair::Open(provider, settings.address);
  if (!pair.ok()) return pair.status();
  const transport::Profile& profile = pair->ping->profile();
  std::vector<Way> ways;
  for (const Way& way : kWays) {
    if (way.notification == Notification::kWriteImm && profile.notification != way.notification) {
      continue;
    }
    if (way.pieces && !profile.may_send_pieces) continue;
    if (way.order == SendOrder::kPipelined && way.notification == Notification::kSendAfterWrite &&
        profile.send_order != way.order) {
      continue;
    }
    ways.push_back(way);
  }
  std::vector<std::vector<int64_t>> times(ways.size() * settings.sizes.size());
  for (int round = 0; round <= settings.rounds; ++round) {
    for (size_t w = 0; w < ways.size(); ++w) {
      for (size_t s = 0; s < settings.sizes.size(); ++s) {
        Side* const ping = pair->ping.get();
        Side* const pong = pair->pong.get();
        // The other thread stops for a change of way, and polls by itself otherwise.
        ping->Use(ways[w], settings.sizes[s], false);
        pong->Use(ways[w], settings.sizes[s], true);
        std::atomic<bool> stop{false};
        std::thread thread;
        if (settings.threads == 2) {
          thread = std::thread([&] {
            PinTo(1);
            while (!stop.load(std::memory_order_relaxed) || !pong->idle()) pong->Poll();
          });
        }
        std::vector<int64_t>* kept = &times[w * settings.sizes.size() + s];
        // The first few after a change fill caches.
        std::vector<int64_t> dropped;
        absl::Status status = Burst(ping, pong, settings.threads == 1, 5, &dropped);
        if (status.ok()) {
          status = Burst(ping, pong, settings.threads == 1, settings.burst,
                         round == 0 ? &dropped : kept);
        }
        const int64_t give_up = transport::MonotonicNs() + kGiveUpNs;
        while (!ping->idle() || (settings.threads == 1 && !pong->idle())) {
          if (settings.threads == 1) pong->Poll();
          ping->Poll();
          if (transport::MonotonicNs() > give_up) break;
        }
        stop.store(true, std::memory_order_relaxed);
        if (thread.joinable()) {
          std::atomic<bool> ended{false};
          std::thread helper([&] {
            thread.join();
            ended = true;
          });
          while (!ended) ping->Poll();
          helper.join();
        }
        if (!status.ok()) {
          return absl::Status(status.code(), absl::StrCat(ways[w].name, ", ", settings.sizes[s],
                                                          " bytes: ", status.message()));
        }
      }
    }
  }
  for (size_t w = 0; w < ways.size(); ++w) {
    for (size_t s = 0; s < settings.sizes.size(); ++s) {
      std::vector<int64_t>& all = times[w * settings.sizes.size() + s];
      const size_t samples = all.size();
      results->push_back(
          {provider, settings.sizes[s], ways[w].name, samples, tools::Summarize(&all)});
    }
  }
  return absl::OkStatus();
}

std::string Conditions(const Settings& settings) {
  utsname system;
  uname(&system);
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  const uint32_t version = fi_version();
  return absl::StrFormat(R"("libfabric":"%d.%d","kernel":"%s","cpus":%d,"load":%.2f,"threads":%d,)"
                         R"("rounds":%d,"burst":%d,"address":"%s")",
                         FI_MAJOR(version), FI_MINOR(version), system.release,
                         std::thread::hardware_concurrency(), load, settings.threads,
                         settings.rounds, settings.burst, settings.address);
}

const Result* Find(const std::vector<Result>& results, const std::string& provider, size_t bytes,
                   const char* way) {
  for (const Result& result : results) {
    if (result.provider == provider && result.bytes == bytes && result.way == std::string(way)) {
      return &result;
    }
  }
  return nullptr;
}

// Medians of the round trip; the last column is eager against the cheaper send-after-write.
void PrintTable(const Settings& settings, const std::vector<Result>& results,
                const std::vector<std::string>& providers) {
  absl::PrintF("%-16s %7s", "median us", "bytes");
  for (const Way& way : kWays) absl::PrintF(" %10s", way.name);
  absl::PrintF(" %12s\n", "eager/saw");
  for (const std::string& provider : providers) {
    for (size_t bytes : settings.sizes) {
      absl::PrintF("%-16s %7d", provider, bytes);
      double eager = 0;
      double other = 0;
      for (const Way& way : kWays) {
        const Result* result = Find(results, provider, bytes, way.name);
        if (result == nullptr) {
          absl::PrintF(" %10s", "-");
          continue;
        }
        absl::PrintF(" %10.2f", result->latency.p50_us);
        if (way.eager) {
          eager = result->latency.p50_us;
        } else if (way.notification == Notification::kSendAfterWrite &&
                   (other == 0 || result->latency.p50_us < other)) {
          other = result->latency.p50_us;
        }
      }
      absl::PrintF(" %12.2f\n", other > 0 ? eager / other : 0);
    }
  }
}

bool WriteJson(const Settings& settings, const std::vector<Result>& results) {
  std::vector<std::string> rows;
  for (const Result& result : results) {
    rows.push_back(absl::StrFormat(
        R"({"provider":"%s","bytes":%d,"way":"%s","samples":%d,"median_us":%.3f,"p99_us":%.3f,)"
        R"("min_us":%.3f,"max_us":%.3f})",
        result.provider, result.bytes, result.way, result.samples, result.latency.p50_us,
        result.latency.p99_us, result.latency.min_us, result.latency.max_us));
  }
  std::ofstream file(settings.json);
  file << "{\"benchmark\":\"notification\",\"conditions\":{" << Conditions(settings)
       << "},\"results\":[\n"
       << absl::StrJoin(rows, ",\n") << "\n]}\n";
  file.close();
  return file.good();
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Round trips between two endpoints of this process, by every way to tell a peer that bytes "
      "are there. Prints medians in microseconds.",
      kProgram);
  Settings settings;
  app.add_option("--provider", settings.providers,
                 "libfabric's name; may be repeated. Without it: every one that Invoker knows and "
                 "this machine has");
  app.add_option("--address", settings.address, "fabric address, where it is an IP address")
      ->capture_default_str();
  app.add_option("--bytes", settings.sizes, "sizes of messages")
      ->check(CLI::Range(size_t{1}, kLargest))
      ->capture_default_str();
  app.add_option("--rounds", settings.rounds, "how often every way takes its turn")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--burst", settings.burst, "round trips in one turn")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--threads", settings.threads,
                 "1: one thread polls both endpoints; 2: each has a pinned thread of its own")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
  app.add_option("--json", settings.json, "also write the results to this file");
  app.footer("Exit status: 0 measured, 1 a fabric failed, 2 bad arguments.");
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  const bool named = !settings.providers.empty();
  if (!named) {
    for (const transport::ProfileRow& row : transport::Rows()) {
      settings.providers.push_back(std::string(row.provider));
    }
  }
  PinTo(0);
  absl::PrintF("{%s}\n", Conditions(settings));
  std::vector<Result> results;
  std::vector<std::string> measured;
  int exit_code = tools::kExitOk;
  for (const std::string& provider : settings.providers) {
    const absl::Status status = Measure(provider, settings, &results);
    if (status.ok()) {
      measured.push_back(provider);
    } else if (named || !absl::IsNotFound(status)) {
      LogError(absl::StrCat(provider, ": ", status.message()));
      exit_code = tools::kExitFailed;
    }
  }
  PrintTable(settings, results, measured);
  if (!settings.json.empty() && !WriteJson(settings, results)) {
    LogError(absl::StrCat("cannot write ", settings.json));
    exit_code = tools::kExitFailed;
  }
  return exit_code;
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
