// The steps of a program whose fabric is the one of this directory (README.md of the directory
// above).
//
// Between Begin and End, the endpoints of the process take turns: reading a completion queue waits
// until there is an entry for it and everybody else waits too. So a thread runs only when it has
// something to do, and always does the same. Time stands still for these threads but for
// AdvanceClock and a little at each reading of the clock.
//
// One thread calls all of this; it is one of those that take turns.

#ifndef INVOKER_TESTS_BUDGET_LOCKSTEP_LOCKSTEP_H_
#define INVOKER_TESTS_BUDGET_LOCKSTEP_LOCKSTEP_H_

#include <cstdint>

namespace invoker::lockstep {

void Begin();
void End();

// Moves CLOCK_MONOTONIC of the threads that take turns.
void AdvanceClock(int64_t nanoseconds);

// The word that they wait on, so that their waiting can be told from other system calls.
const void* WaitAddress();

}  // namespace invoker::lockstep

#endif  // INVOKER_TESTS_BUDGET_LOCKSTEP_LOCKSTEP_H_
