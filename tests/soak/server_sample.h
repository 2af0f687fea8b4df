// What a server holds at one moment, as the system and its fabric see it.

#ifndef INVOKER_TESTS_SOAK_SERVER_SAMPLE_H_
#define INVOKER_TESTS_SOAK_SERVER_SAMPLE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "tests/faults/live_counts.h"

namespace invoker::soak {

struct ServerSample {
  int64_t resident_kb = 0;
  int64_t descriptors = 0;
  int64_t mappings = 0;
  int64_t threads = 0;
  // The server's own process's.
  int64_t endpoints = 0;
  int64_t regions = 0;
  int64_t addresses = 0;
};

ServerSample Sample(pid_t server, const faults::LiveCounts& counts);

// What has grown from one idle moment to a later one by more than it may, or "". Between the two
// there were `clients`. `lost` peers died with operations of ours under way, which some fabrics
// never end: their addresses are kept.
std::string Growth(const ServerSample& before, const ServerSample& after, int64_t clients,
                   int64_t lost);

}  // namespace invoker::soak

#endif  // INVOKER_TESTS_SOAK_SERVER_SAMPLE_H_
