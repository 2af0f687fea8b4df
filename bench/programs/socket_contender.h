// A TCP ping-pong over loopback with bench/peers/socket_peer: both ends block in the kernel, or
// both ask it over and over.

#ifndef INVOKER_BENCH_PROGRAMS_SOCKET_CONTENDER_H_
#define INVOKER_BENCH_PROGRAMS_SOCKET_CONTENDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/harness/interleave.h"
#include "bench/harness/server_process.h"

namespace invoker::bench {

// Named "tcp_blocking" or "tcp_polling". A message has at least one byte.
class SocketContender final : public Contender {
 public:
  // The peer runs on `core`.
  static absl::StatusOr<std::unique_ptr<SocketContender>> Start(bool polls, size_t most_bytes,
                                                                int core);
  ~SocketContender() override;

  const std::string& name() const override { return name_; }
  absl::Status Begin() override { return absl::OkStatus(); }
  void End() override {}
  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override;

 private:
  SocketContender(std::unique_ptr<ServerProcess> peer, int socket, bool polls, size_t most_bytes);

  const std::string name_;
  const std::unique_ptr<ServerProcess> peer_;
  const int socket_;
  const bool polls_;
  std::vector<char> message_;
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_SOCKET_CONTENDER_H_
