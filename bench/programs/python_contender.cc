#include "bench/programs/python_contender.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/harness/client_options.h"
#include "bench/harness/distribution.h"

namespace invoker::bench {
namespace {

// Debian's: the one that the package is built for.
constexpr char kPython[] = "/usr/bin/python3";

double MedianUs(std::vector<int64_t> times_ns) {
  std::sort(times_ns.begin(), times_ns.end());
  return static_cast<double>(Percentile(times_ns, 50)) / 1e3;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> StartPython(
    const std::string& script, const std::vector<std::string>& arguments, int core) {
  ServerProcess::Options process;
  process.command = {kPython, ProgramPath(absl::StrCat("bench/peers/", script))};
  process.command.insert(process.command.end(), arguments.begin(), arguments.end());
  process.core = core;
  process.environment = {absl::StrCat("PYTHONPATH=", ProgramPath("src/python"))};
  return ServerProcess::Start(process);
}

absl::StatusOr<CalledServer> CalledServer::Start(const CommonOptions& options,
                                                 const std::string& provider) {
  absl::StatusOr<InvokerServer> server =
      StartInvokerServer(options.server_core, provider, options.address, {});
  if (!server.ok()) return server.status();
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(server->target, OptionsFor(provider));
  if (!client.ok()) return client.status();
  absl::StatusOr<std::unique_ptr<ServerProcess>> python =
      StartPython("python_peer.py", {server->target, provider}, options.client_core);
  if (!python.ok()) return python.status();
  return CalledServer{*std::move(server), *std::move(client), *std::move(python)};
}

absl::Status PythonContender::Burst(size_t bytes, absl::Span<int64_t> times_ns) {
  absl::Status sent =
      peer_->WriteLine(absl::StrCat("burst ", bytes, " ", times_ns.size(), " ", name_));
  if (!sent.ok()) return sent;
  const absl::StatusOr<std::string> line = peer_->ReadLine();
  if (!line.ok()) return line.status();
  const std::vector<absl::string_view> words = absl::StrSplit(*line, ' ');
  bool valid = words.size() == times_ns.size();
  for (size_t i = 0; valid && i < words.size(); ++i) {
    valid = absl::SimpleAtoi(words[i], &times_ns[i]);
  }
  if (valid) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("python_peer.py answered with something else than ",
                                          times_ns.size(), " times: ", line->substr(0, 200)));
}

double MedianAbove(const Rounds& subject, const Rounds& baseline) {
  std::vector<double> above_us;
  for (size_t i = 0; i < std::min(subject.size(), baseline.size()); ++i) {
    above_us.push_back(MedianUs(subject[i]) - MedianUs(baseline[i]));
  }
  if (above_us.empty()) return 0;
  std::sort(above_us.begin(), above_us.end());
  return above_us[above_us.size() / 2];
}

}  // namespace invoker::bench
