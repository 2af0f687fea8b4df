// When a call passes which point, taken inside this process and without a line of it in the
// library: the probe puts itself between Invoker and the fabric, by a fi_fabric of its own in front
// of libfabric's, and the benchmark's function is where the executor's side ends and begins. A
// program that does not link this has nothing of it.
//
// For one blocking call at a time: the client's thread says that it is one, and where calls begin
// and end; the executor's thread is the one that runs ProbedNoop. Only write-with-immediate is
// followed.

#ifndef INVOKER_BENCH_PROGRAMS_STAGE_PROBE_H_
#define INVOKER_BENCH_PROGRAMS_STAGE_PROBE_H_

#include <array>
#include <cstdint>

#include "invoker/function.h"

namespace invoker::bench {

// In the order in which a call passes them.
enum Point {
  kInvoke,          // Invoke is entered
  kRequestPost,     // the client's post is entered
  kRequestPosted,   // and has returned
  kRequestRead,     // the executor begins the look at its queue that finds the request
  kRequestSeen,     // and has it
  kFunction,        // the function is entered
  kFunctionEnd,     // and returns
  kResponsePost,    // like the request's
  kResponsePosted,  //
  kResponseRead,    //
  kResponseSeen,    //
  kReturn,          // Invoke has returned
  kRelease,         // the response has been let go
  kPoints
};

// Ticks of ProbeTicks; one call's.
using Stamps = std::array<int64_t, kPoints>;

// The processor's time stamp counter, or nanoseconds where it has none that can be used.
int64_t ProbeTicks();

// How many of them a nanosecond has. Takes some milliseconds the first time.
double TicksPerNs();

// What taking one costs.
double StampCostNs();

// The client's thread, before its first call.
void ProbeThisThread();

// Off at first. What is off costs a branch at each post and look.
void SetProbing(bool on);

// The client's thread, before and after each call.
void ProbeCallBegin();
// Waits for what the executor still has to note. False if some point was not passed.
bool ProbeCallEnd(int64_t invoke, int64_t returned, int64_t released, Stamps* stamps);

// An invoker_function: returns as many bytes as it got, untouched.
int64_t ProbedNoop(invoker_call* call);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_STAGE_PROBE_H_
