// Large payloads: calls with requests built in place, several under way. One client thread.

#ifndef INVOKER_BENCH_PROGRAMS_TRANSFERS_H_
#define INVOKER_BENCH_PROGRAMS_TRANSFERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/harness/server_process.h"
#include "bench/raw/raw_stream.h"
#include "invoker/client.h"

namespace invoker::bench {

// Where the bytes go.
enum class Direction {
  kRequest,   // function sink: the response is empty
  kResponse,  // function source: the request is a count
  kBoth,      // function noop: as many bytes as came
};
absl::string_view DirectionName(Direction direction);
// What the raw fabric does in its place with `bytes`: a stream of writes in that direction, or
// messages there and back of the sizes that a call's have. For kBoth they are the same.
StreamShape RawStreamFor(Direction direction, uint64_t bytes, int in_flight);
StreamShape RawCallsFor(Direction direction, uint64_t bytes, int in_flight);

// A server and a client of it, with windows of one size.
class Transfers {
 public:
  // `window`: the server's --window; empty: its default. With one executor.
  static absl::StatusOr<std::unique_ptr<Transfers>> Start(int core, const std::string& provider,
                                                          const std::string& address,
                                                          const std::string& window);

  // Resumes the server: closing the client's session takes a round trip.
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  uint64_t window_bytes() const { return window_bytes_; }
  ServerProcess* server() { return server_.process.get(); }

  // How many requests of `bytes` the window holds, but no more than `wanted`.
  absl::StatusOr<int> Fitting(uint64_t bytes, int wanted);

  // Writes every byte once, at both ends, of what `outstanding` calls of `bytes` use: memory that
  // nobody has written is cheaper to read than any that is in use.
  absl::Status Touch(uint64_t bytes, int outstanding);

  // Calls per second over a turn. Fails if a call fails or returns another size than it ought to.
  absl::StatusOr<double> Turn(Direction direction, uint64_t bytes, int outstanding,
                              int64_t turn_ns);

 private:
  Transfers(InvokerServer server, std::unique_ptr<Client> client);

  absl::StatusOr<std::vector<Buffer>> MakeBuffers(uint64_t bytes, int count);

  InvokerServer server_;
  std::unique_ptr<Client> client_;
  uint64_t window_bytes_;
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_TRANSFERS_H_
