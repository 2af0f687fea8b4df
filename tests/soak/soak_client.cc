#include "tests/soak/soak_client.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "invoker/client.h"
#include "invoker/lease.h"
#include "invoker/registered_window.h"
#include "tests/invoke/with_output.h"
#include "tests/soak/bills.h"
#include "tests/soak/ledger.h"

namespace invoker::soak {
namespace {

constexpr size_t kAtOnce = 12;
constexpr absl::Duration kHotTimeout = absl::Microseconds(50);
constexpr absl::Duration kPeerTimeout = absl::Seconds(20);

class SoakClient {
 public:
  // `large`: also calls that are larger than the window.
  SoakClient(Client* client, ClientRecord* record, uint32_t number, uint64_t seed, bool large)
      : client_(client), record_(record), number_(number), random_(seed), large_(large) {}

  absl::Status Run(uint64_t calls, bool doomed) {
    absl::StatusOr<RemoteFunction> work = client_->Function("soak.work");
    if (!work.ok()) return work.status();
    for (uint64_t i = 0; i < calls; ++i) {
      const absl::Status status = One(*work);
      if (!status.ok()) return status;
    }
    if (doomed) {
      if (absl::Status status = FinishAll(); !status.ok()) return status;
      Die(*work);
    }
    return FinishAll();
  }

 private:
  struct Started {
    Work work;
    Future future;
  };

  // With calls under way, between two posts: on the thread that drives the endpoint, while the
  // other one sleeps. Some of the calls still wait in the client; the others are answered by single
  // small writes, of which a fabric has nothing left to do once they are posted.
  void Die(const RemoteFunction& function) {
    Work work;
    const std::string input = Input(32, 32, &work);
    const Bytes bytes(reinterpret_cast<const std::byte*>(input.data()), input.size());
    const auto die = [this, &function](const absl::StatusOr<Response>& response) {
      if (!response.ok()) {
        std::fprintf(stderr, "the last call: %s\n", response.status().ToString().c_str());
        std::_Exit(1);
      }
      for (size_t i = 0; i < kAtOnce; ++i) Start(function, 32 + random_() % 4000, 32);
      raise(SIGKILL);
    };
    client_->InvokeAsync(function, bytes, CallOptions(), die);
    absl::Notification().WaitForNotification();
  }

  // Mostly small; some as large as a window takes, and some several windows.
  absl::Status One(const RemoteFunction& function) {
    const uint64_t most = client_->max_payload();
    const uint64_t kind = random_() % 40;
    if (kind == 0 && large_) {
      if (absl::Status status = FinishAll(); !status.ok()) return status;
      return Large(function, 32 + random_() % (4 * most), random_() % (4 * most));
    }
    if (kind < 4) {
      if (absl::Status status = FinishAll(); !status.ok()) return status;
      Start(function, 32 + random_() % (most - 31), random_() % (most + 1));
      return FinishAll();
    }
    Start(function, 32 + random_() % 4000, random_() % 4000);
    if (started_.size() >= kAtOnce || kind < 12) return FinishAll();
    return absl::OkStatus();
  }

  std::string Input(uint64_t input_bytes, uint64_t output_bytes, Work* work) {
    const uint32_t call = static_cast<uint32_t>(record_->sent.fetch_add(1));
    *work = {number_, call, random_(), input_bytes, output_bytes};
    std::string input(input_bytes, '\0');
    memcpy(&input[0], work, sizeof(*work));
    Fill(work->seed)
        .Write(reinterpret_cast<uint8_t*>(&input[sizeof(*work)]), input.size() - sizeof(*work));
    return input;
  }

  void Start(const RemoteFunction& function, uint64_t input_bytes, uint64_t output_bytes) {
    Work work;
    const std::string input = Input(input_bytes, output_bytes, &work);
    CallOptions options;
    options.response_capacity = static_cast<uint32_t>(std::max<uint64_t>(output_bytes, 1));
    started_.push_back({work, client_->InvokeAsync(function, input, options)});
  }

  absl::Status Large(const RemoteFunction& function, uint64_t input_bytes, uint64_t output_bytes) {
    Work work;
    const std::string input = Input(input_bytes, output_bytes, &work);
    std::string output(output_bytes + 1, '\0');
    const absl::StatusOr<Response> response = client_->Invoke(
        function, Bytes(reinterpret_cast<const std::byte*>(input.data()), input.size()),
        WithOutput(absl::MakeSpan(reinterpret_cast<std::byte*>(&output[0]), output.size())));
    if (!response.ok()) return response.status();
    return Check(work, response->text());
  }

  absl::Status FinishAll() {
    while (!started_.empty()) {
      Started started = std::move(started_.front());
      started_.pop_front();
      const absl::StatusOr<Response> response = started.future.Get();
      if (!response.ok()) return response.status();
      if (absl::Status status = Check(started.work, response->text()); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Check(const Work& work, absl::string_view answer) {
    if (answer.size() != work.output_bytes ||
        !Fill(~work.seed).Check(reinterpret_cast<const uint8_t*>(answer.data()), answer.size())) {
      record_->wrong.fetch_add(1);
      return absl::DataLossError(absl::StrCat("wrong bytes in an answer of ", answer.size()));
    }
    record_->answered.fetch_add(1);
    record_->calls[work.call].answered.fetch_add(1);
    return absl::OkStatus();
  }

  Client* client_;
  ClientRecord* record_;
  uint32_t number_;
  std::mt19937_64 random_;
  const bool large_;
  std::deque<Started> started_;
};

// What its executors run is counted by the server as well, on the bill of a tenant of its own.
absl::Status RunLease(const std::string& server, const ClientOptions& options, bool release,
                      ClientRecord* record, uint32_t number, uint64_t seed, uint64_t calls) {
  LeaseOptions lease_options;
  lease_options.client = options;
  lease_options.polling = Polling::kAdaptive;
  lease_options.hot_timeout = kHotTimeout;
  lease_options.wait = absl::InfiniteDuration();
  lease_options.tenant = TenantOf(number);
  absl::StatusOr<std::unique_ptr<Lease>> lease = Lease::Acquire(server, lease_options);
  if (!lease.ok()) return lease.status();
  SoakClient client(&(*lease)->executor(0), record, number, seed, true);
  if (absl::Status status = client.Run(calls, false); !status.ok()) return status;
  // Its end is for the server to notice.
  if (!release) std::_Exit(0);
  const absl::StatusOr<LeaseEnd> end = (*lease)->Release();
  if (!end.ok()) return end.status();
  record->billed = end->usage.calls;
  return absl::OkStatus();
}

}  // namespace

int RunClient(int argc, char** argv) {
  if (argc != 9) return 2;
  ClientOptions options;
  options.provider = argv[3];
  options.hot_timeout = kHotTimeout;
  // On a machine that others use a second's silence means nothing, and nobody stops here.
  options.peer_timeout = kPeerTimeout;
  ClientRecord* const ledger = MapLedger(argv[4], /*create=*/false);
  if (ledger == nullptr) return 2;
  const auto number = static_cast<uint32_t>(std::strtoull(argv[5], nullptr, 10));
  const uint64_t seed = std::strtoull(argv[6], nullptr, 10);
  const uint64_t calls = std::strtoull(argv[7], nullptr, 10);
  const std::string kind = argv[8];
  ClientRecord* const record = &ledger[number];
  absl::Status status;
  if (kind == "lease" || kind == "dropped_lease") {
    status = RunLease(argv[2], options, kind == "lease", record, number, seed, calls);
  } else {
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(argv[2], options);
    status = client.status();
    if (status.ok()) {
      // On shm what a killed client has left undone holds up the executor's transfers to others
      // (docs/design/libfabric.md), until they are given up.
      const bool large = options.provider != "shm";
      status = SoakClient(client->get(), record, number, seed, large).Run(calls, kind == "doomed");
    }
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "client %s: %s\n", argv[5], status.ToString().c_str());
  return 1;
}

}  // namespace invoker::soak
