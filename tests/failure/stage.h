// What the scenarios have in common: a worker, a session with calls under way on it, and what is
// measured from the moment of the failure on.
//
// One thread, the main one.

#ifndef INVOKER_TESTS_FAILURE_STAGE_H_
#define INVOKER_TESTS_FAILURE_STAGE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "invoker/client.h"
#include "invoker/client_group.h"
#include "src/bootstrap/client/client.h"
#include "tests/failure/scenarios.h"
#include "tests/integration/server_process.h"

namespace invoker::failure {

inline constexpr char kFunctions[] = "tests/failure/failure_functions.so";

// In the servers' namespace, if there is a network. `port` 0: any.
absl::StatusOr<std::unique_ptr<ServerProcess>> StartWorker(const Setup& setup, uint16_t port = 0,
                                                           std::vector<std::string> more = {});

// After which silence such a worker gives a client up.
absl::Duration ServersPeerTimeout(const Setup& setup);

ClientOptions OptionsOf(const Setup& setup);

// Calls of failure.work on a session, which outlives them.
absl::StatusOr<StartCall> CallsOf(Client* client);

// Starts the flood, breaks what `failure` breaks once it is at full speed, waits until every call
// has ended, and makes as many calls again. Fills in what is known of `client`'s calls.
absl::StatusOr<Outcome> BreakUnder(const Setup& setup, Client* client,
                                   const std::function<absl::Status()>& failure);

// One call that must work, tried again until it does.
absl::Status AwaitCall(const Setup& setup, const std::function<absl::Status()>& call);

// failure.work once, on a session that may be lost, as the call of that number. OK if the answer is
// right.
absl::Status OneCall(Client* client, uint64_t number, absl::Duration timeout);

// How many leases are open on a worker, each a session's.
absl::StatusOr<int> OpenLeases(bootstrap::BootstrapClient* worker, absl::Duration timeout);
// Waits until there are so many on the worker at `address`.
absl::Status AwaitLeases(const Setup& setup, const std::string& address, int leases);

double MillisecondsSince(int64_t since_ns);

}  // namespace invoker::failure

#endif  // INVOKER_TESTS_FAILURE_STAGE_H_
