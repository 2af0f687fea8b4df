// Ping-pong by fi_writedata between a raw endpoint of this process and one of bench/peers/raw_peer:
// the fabric's own round trip, which everything is compared to.

#ifndef INVOKER_BENCH_RAW_RAW_CONTENDER_H_
#define INVOKER_BENCH_RAW_RAW_CONTENDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/harness/interleave.h"
#include "bench/harness/server_process.h"
#include "bench/raw/raw_endpoint.h"

namespace invoker::bench {

// A raw endpoint and the process with its peer, which blocks while it is not told to do anything.
struct RawPair {
  std::unique_ptr<ServerProcess> peer;
  std::unique_ptr<RawEndpoint> ours;
};
// `bytes` is the largest message; the peer runs on `core`.
absl::StatusOr<RawPair> StartRawPair(const std::string& provider, const std::string& address,
                                     size_t bytes, int core);

class RawContender final : public Contender {
 public:
  static absl::StatusOr<std::unique_ptr<RawContender>> Start(const std::string& provider,
                                                             const std::string& address,
                                                             size_t bytes, int core);

  const std::string& name() const override { return name_; }
  absl::Status Begin() override { return absl::OkStatus(); }
  void End() override {}
  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override;

 private:
  explicit RawContender(RawPair pair) : pair_(std::move(pair)) {}

  const std::string name_ = "raw";
  RawPair pair_;
  uint32_t data_ = 0;
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_RAW_RAW_CONTENDER_H_
