// Invoker itself: blocking calls of `noop` through the public client, to an invoker_server in a
// process of its own. The request is built in place, and the response looked at in place.

#ifndef INVOKER_BENCH_PROGRAMS_INVOKER_CONTENDER_H_
#define INVOKER_BENCH_PROGRAMS_INVOKER_CONTENDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/harness/client_options.h"
#include "bench/harness/interleave.h"
#include "bench/harness/server_process.h"
#include "invoker/client.h"

namespace invoker::bench {

class InvokerContender final : public Contender {
 public:
  struct Options {
    std::string name = "invoker";
    std::string provider;
    std::string address;
    int core = 1;                             // the server's
    std::vector<std::string> server_options;  // besides its defaults
    ClientOptions client = OptionsFor("");    // the provider is filled in
    size_t most_bytes = 1 << 20;
  };
  // The server is stopped between turns.
  static absl::StatusOr<std::unique_ptr<InvokerContender>> Start(const Options& options);
  ~InvokerContender() override;

  const std::string& name() const override { return name_; }
  absl::Status Begin() override;
  void End() override;
  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override;

  // One call of `echo` per size, whose every byte is compared. Not timed.
  absl::Status Verify(const std::vector<size_t>& sizes);

  const Client& client() const { return *client_; }

 private:
  InvokerContender(std::string name, InvokerServer server, std::unique_ptr<Client> client,
                   RemoteFunction noop, RemoteFunction echo, Buffer request);

  const std::string name_;
  InvokerServer server_;
  std::unique_ptr<Client> client_;
  const RemoteFunction noop_;
  const RemoteFunction echo_;
  Buffer request_;
  absl::Status paused_;  // the last End's, which cannot say it
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_INVOKER_CONTENDER_H_
