// One client of a worker that makes calls, while many others of the same executor idle. The worker
// and those others are processes of their own.

#ifndef INVOKER_BENCH_PROGRAMS_CROWD_H_
#define INVOKER_BENCH_PROGRAMS_CROWD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/harness/interleave.h"
#include "bench/harness/server_process.h"
#include "invoker/client.h"

namespace invoker::bench {

// Small, so that they can be told from everything else.
inline constexpr uint64_t kCrowdWindowBytes = 4096;

struct CrowdOptions {
  std::string provider;
  std::string address;
  int client_core = 0;
  int server_core = 1;
  uint32_t idle = 0;
};

// Between turns the worker is stopped; in a turn, its idle clients are.
class Crowd final : public Contender {
 public:
  // Its worker runs. Stop it by End before the first turn, and not for long: leases expire.
  static absl::StatusOr<std::unique_ptr<Crowd>> Start(const CrowdOptions& options);
  ~Crowd() override;

  const std::string& name() const override { return name_; }
  absl::Status Begin() override;
  void End() override;
  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override;

  // Sessions that idle; fewer than were asked for if `refused` says why.
  uint32_t idle() const { return idle_; }
  const std::string& refused() const { return refused_; }

 private:
  Crowd() = default;

  std::string name_;
  InvokerServer server_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<RemoteFunction> noop_;
  std::unique_ptr<ServerProcess> holder_;
  uint32_t idle_ = 0;
  std::string refused_;
  std::string request_;
  absl::Status ended_;  // the last End's, which cannot say it
};

struct HeldFigures {
  uint32_t held = 0;
  std::string refused;
  double bytes_each = 0;
};

// What a worker's process grows by for each client that has a lease and no session: the bootstrap.
absl::StatusOr<HeldFigures> MeasureLeases(const CrowdOptions& options);

// What a session costs a worker's process where no call is made by anybody, with whatever is in the
// environment.
absl::StatusOr<HeldFigures> MeasureIdleSessions(const CrowdOptions& options);

// What this process grows by for each plain libfabric endpoint that has exchanged a message with
// one of ours: the provider's connections.
absl::StatusOr<HeldFigures> MeasureRawPeers(const CrowdOptions& options);

// The bytes of our own heap, for each session of a worker in this process: exact.
absl::StatusOr<HeldFigures> MeasureOurs(const CrowdOptions& options);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_CROWD_H_
