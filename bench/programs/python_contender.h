// Calls from a Python process, bench/peers/python_peer.py, as a contender.

#ifndef INVOKER_BENCH_PROGRAMS_PYTHON_CONTENDER_H_
#define INVOKER_BENCH_PROGRAMS_PYTHON_CONTENDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/harness/interleave.h"
#include "bench/harness/options.h"
#include "bench/harness/server_process.h"
#include "invoker/client.h"

namespace invoker::bench {

// A script of bench/peers, on a core of its own.
absl::StatusOr<std::unique_ptr<ServerProcess>> StartPython(
    const std::string& script, const std::vector<std::string>& arguments, int core);

// A server of the benchmarks' functions, and what calls it over one fabric: this process, and a
// Python process on the same core.
struct CalledServer {
  InvokerServer server;
  std::unique_ptr<Client> client;
  std::unique_ptr<ServerProcess> python;

  static absl::StatusOr<CalledServer> Start(const CommonOptions& options,
                                            const std::string& provider);
};

// One way to call from the Python process, which several of these share. `api` is a method's name
// there.
class PythonContender : public Contender {
 public:
  PythonContender(ServerProcess* peer, std::string api) : name_(std::move(api)), peer_(peer) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override { return absl::OkStatus(); }
  void End() override {}
  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override;

 private:
  const std::string name_;
  ServerProcess* const peer_;
};

// What the subject's median is above the baseline's, in microseconds, in the middle one of the
// rounds: what else the machine did in a round fell on both.
double MedianAbove(const Rounds& subject, const Rounds& baseline);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_PYTHON_CONTENDER_H_
