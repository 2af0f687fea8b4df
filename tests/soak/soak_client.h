// One client of a soak, in a process of its own.

#ifndef INVOKER_TESTS_SOAK_SOAK_CLIENT_H_
#define INVOKER_TESTS_SOAK_SOAK_CLIENT_H_

namespace invoker::soak {

// The first argument of a process that is to be a client.
inline constexpr char kClientFlag[] = "--be-client";

// Arguments: SERVER PROVIDER LEDGER CLIENT SEED CALLS KIND. KIND: "session", "lease" (executors of
// its own, in the name of TenantOf(CLIENT)), "dropped_lease" (which it does not give back),
// "doomed" (kills itself with its last calls under way). The exit status.
int RunClient(int argc, char** argv);

}  // namespace invoker::soak

#endif  // INVOKER_TESTS_SOAK_SOAK_CLIENT_H_
