// What it takes to get an executor of one's own and the first result from it: part of cold_start.
//
// The client is one process that has had others before, so libfabric and gRPC are ready; what is
// measured is the worker's part. Each round starts a server of its own and takes leases from it,
// one at a time.

#ifndef INVOKER_BENCH_PROGRAMS_LEASE_START_H_
#define INVOKER_BENCH_PROGRAMS_LEASE_START_H_

#include <string>

#include "absl/status/status.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"

namespace invoker::bench {

// Adds a row for each step and kind of executor to `phases`, and one for each kind to `totals`.
absl::Status MeasureLeaseStarts(const CommonOptions& options, const std::string& provider,
                                Table* phases, Table* totals);

// What the rows mean, for the report.
void ExplainLeaseStarts(Report* report);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_LEASE_START_H_
