// A worker and clients in this process, on a fabric with faults, and an account of every call that
// was made: what its caller was told, and how often the function ran.

#ifndef INVOKER_TESTS_FAULTS_FAULTY_WORLD_H_
#define INVOKER_TESTS_FAULTS_FAULTY_WORLD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "invoker/client.h"
#include "invoker/client_group.h"
#include "invoker/lease.h"
#include "src/bootstrap/messages/session_host.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/worker/worker.h"

namespace invoker::faults {

// Every call that will ever be made has a number of its own.
class CallBook {
 public:
  // What the caller knows in the end.
  enum class Told : uint8_t { kNothing, kExecuted, kNotExecuted, kMaybeExecuted };

  explicit CallBook(size_t calls) : runs_(calls), retries_(calls), told_(calls) {}

  // The number of the next call, which may be tried again so many times.
  uint64_t Next(uint32_t retries = 0) {
    const uint64_t call = next_.fetch_add(1);
    if (call < retries_.size()) retries_[call] = retries;
    return call;
  }
  size_t made() const { return std::min<size_t>(next_.load(), runs_.size()); }

  void Ran(uint64_t call) {
    if (call < runs_.size()) runs_[call].fetch_add(1);
  }

  // Takes down how a call has ended. A violation if the status does not say what became of it.
  void End(uint64_t call, const absl::Status& status);
  void Violation(const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_);

  // Once nothing can run any more: compares what callers were told with what ran. All violations so
  // far.
  std::vector<std::string> Close() ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t ended_well() const { return ended_well_; }
  uint64_t ended() const { return ended_; }

 private:
  std::vector<std::atomic<uint32_t>> runs_;
  std::vector<std::atomic<uint32_t>> retries_;
  std::vector<std::atomic<Told>> told_;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> ended_{0};
  std::atomic<uint64_t> ended_well_{0};
  absl::Mutex mutex_;
  std::vector<std::string> violations_ ABSL_GUARDED_BY(mutex_);
};

// A session's, in either direction.
inline constexpr uint64_t kWindowBytes = 128 << 10;

// What the function answers to an input that begins with the call's number.
std::string AnswerTo(absl::string_view input);

class FaultyWorld {
 public:
  FaultyWorld(const std::string& provider, CallBook* book);
  ~FaultyWorld();

  // How a session is to be, as far as the calls do not show it.
  struct Kind {
    DataAuth data_auth = DataAuth::kOff;
    bool send_after_write = false;  // also where writes could carry the notification
  };
  // One attempt each: at a session with the shared executor, at a lease of it, and at a group of so
  // many sessions, which connects again where an endpoint that has gone is of no more use to
  // others.
  absl::StatusOr<std::unique_ptr<Client>> Connect(const Kind& kind);
  absl::StatusOr<std::unique_ptr<Lease>> Acquire(const Kind& kind);
  absl::StatusOr<std::unique_ptr<ClientGroup>> ConnectGroup(const Kind& kind, size_t sessions);
  Worker& worker() { return *worker_; }

  // Ends the worker and its server; nothing runs any more.
  void Stop();

 private:
  ClientOptions OptionsFor(const Kind& kind) const;

  std::string provider_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<bootstrap::SessionHost> host_;
  std::unique_ptr<bootstrap::Server> server_;
};

// So many calls of every kind with the client, each with the deadline; every answer is checked.
// Some are cancelled. If `must_succeed`, any other that fails is a violation. Without `bulk`, what
// costs registrations is left out.
struct CallMix {
  int calls = 0;
  uint64_t seed = 0;
  absl::Duration deadline;
  bool must_succeed = false;
  bool bulk = true;
};
void MakeCalls(Client* client, const CallMix& mix, CallBook* book);

// The same with a group: some of the calls may be tried again on another of its executors.
void MakeGroupCalls(ClientGroup* group, const CallMix& mix, CallBook* book);

}  // namespace invoker::faults

#endif  // INVOKER_TESTS_FAULTS_FAULTY_WORLD_H_
