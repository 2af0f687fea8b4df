// Calls with random functions, sizes and contents, whose answers are checked byte by byte.

#ifndef INVOKER_TESTS_INTEGRATION_RANDOM_CALLS_H_
#define INVOKER_TESTS_INTEGRATION_RANDOM_CALLS_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "invoker/client.h"

namespace invoker {

// Bytes that depend on every bit of the seed.
std::string RandomBytes(uint64_t size, uint64_t seed);

// What test.checksum and test.fill of tests/functions answer.
std::string ChecksumOf(absl::string_view input);
std::string FillOf(uint64_t size, uint64_t seed);
std::string FillRequest(uint64_t size, uint64_t seed);

// Half of them powers of two and their neighbours, or the limit's; the rest anywhere, small sizes
// as likely as large ones.
uint64_t RandomSize(std::mt19937_64* random, uint64_t limit);

// One call, and what must come back.
struct RandomCall {
  std::string function;
  std::string input;
  std::string expected;
};
RandomCall MakeRandomCall(std::mt19937_64* random, uint64_t limit);

// OK if the call answers what it must.
absl::Status CheckAnswer(const RandomCall& call, const absl::StatusOr<Response>& response);

// `count` calls of up to `limit` bytes, one after the other. `between`, if any, is called before
// each: false says that there are to be no more.
absl::Status MakeRandomCalls(Client* client, uint64_t seed, int count, uint64_t limit,
                             const std::function<bool()>& between = nullptr);

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_RANDOM_CALLS_H_
