#include "tests/integration/random_calls.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

uint64_t SplitMix64(uint64_t* state) {
  *state += 0x9E3779B97F4A7C15u;
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

std::string FillOf(uint64_t size, uint64_t seed) {
  std::string result(size, '\0');
  for (uint64_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t value = SplitMix64(&seed);
    memcpy(&result[at], &value, std::min<uint64_t>(sizeof(value), size - at));
  }
  return result;
}

std::string RandomBytes(uint64_t size, uint64_t seed) { return FillOf(size, ~seed); }

std::string ChecksumOf(absl::string_view input) {
  uint64_t result[2] = {0, 0xCBF29CE484222325u};
  for (const char byte : input) {
    result[0] += static_cast<uint8_t>(byte);
    result[1] = (result[1] ^ static_cast<uint8_t>(byte)) * 0x100000001B3u;
  }
  return std::string(reinterpret_cast<const char*>(result), sizeof(result));
}

std::string FillRequest(uint64_t size, uint64_t seed) {
  const uint64_t request[2] = {size, seed};
  return std::string(reinterpret_cast<const char*>(request), sizeof(request));
}

uint64_t RandomSize(std::mt19937_64* random, uint64_t limit) {
  const auto below = [&](uint64_t bound) { return (*random)() % bound; };
  switch (below(4)) {
    case 0: {
      const uint64_t power = uint64_t{1} << below(static_cast<uint64_t>(std::log2(limit)) + 1);
      return std::min(limit, power + below(67) - std::min<uint64_t>(power, 33));
    }
    case 1:
      return below(8) == 0 ? limit - std::min(limit, below(40))
                           : below(std::min<uint64_t>(limit, 256));
    default:
      return static_cast<uint64_t>(
          std::exp2(std::uniform_real_distribution<>(0, std::log2(limit))(*random)));
  }
}

RandomCall MakeRandomCall(std::mt19937_64* random, uint64_t limit) {
  const uint64_t size = RandomSize(random, limit);
  const uint64_t seed = (*random)();
  switch ((*random)() % 4) {
    case 0: {
      std::string input = RandomBytes(size, seed);
      return {"test.echo", input, input};
    }
    case 1: {
      std::string input = RandomBytes(size, seed);
      return {"test.checksum", input, ChecksumOf(input)};
    }
    case 2: {
      std::string input = RandomBytes(size / 2, seed);
      return {"test.twice", input, input + input};
    }
    default:
      return {"test.fill", FillRequest(size, seed), FillOf(size, seed)};
  }
}

absl::Status CheckAnswer(const RandomCall& call, const absl::StatusOr<Response>& response) {
  const std::string what = absl::StrCat(call.function, " of ", call.input.size(), " bytes");
  if (!response.ok()) {
    return absl::Status(response.status().code(),
                        absl::StrCat(what, ": ", response.status().message()));
  }
  if (response->text() == call.expected) return absl::OkStatus();
  const absl::string_view answer = response->text();
  const size_t common = std::min(answer.size(), call.expected.size());
  const size_t wrong = static_cast<size_t>(
      std::mismatch(answer.begin(), answer.begin() + common, call.expected.begin()).first -
      answer.begin());
  return absl::DataLossError(absl::StrCat(what, ": an answer of ", answer.size(), " bytes for ",
                                          call.expected.size(), ", first wrong at ", wrong));
}

absl::Status MakeRandomCalls(Client* client, uint64_t seed, int count, uint64_t limit,
                             const std::function<bool()>& between) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    if (between && !between()) break;
    const RandomCall call = MakeRandomCall(&random, limit);
    const absl::StatusOr<RemoteFunction> function = client->Function(call.function);
    if (!function.ok()) return function.status();
    CallOptions options;
    options.response_capacity =
        static_cast<uint32_t>(std::max<size_t>(call.expected.size() + random() % 2, 1));
    options.response_capacity =
        static_cast<uint32_t>(std::min<uint64_t>(options.response_capacity, client->max_payload()));
    absl::Status status = CheckAnswer(call, client->Invoke(*function, call.input, options));
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("seed ", seed, ", call ", i, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace invoker
