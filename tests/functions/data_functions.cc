// Functions whose answers a test can compute for itself.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "invoker/function.h"

namespace {

std::uint64_t SplitMix64(std::uint64_t* state) {
  *state += 0x9E3779B97F4A7C15u;
  std::uint64_t z = *state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

// The input, unchanged.
INVOKER_FUNCTION(test.echo, input, output) {
  output.Append(input.data(), input.size());
  return invoker::Result::Ok();
}

// 16 bytes, two little-endian uint64: the sum of the input's bytes, and its 64-bit FNV-1a hash,
// which notices bytes that changed places.
INVOKER_FUNCTION(test.checksum, input, output) {
  std::uint64_t result[2] = {0, 0xCBF29CE484222325u};
  for (const std::uint8_t byte : input) {
    result[0] += byte;
    result[1] = (result[1] ^ byte) * 0x100000001B3u;
  }
  output.Append(result, sizeof(result));
  return invoker::Result::Ok();
}

// Input: two little-endian uint64, a size and a seed. Output: that many pseudo-random bytes: the
// successive values of splitmix64 from that seed, little-endian, the last one cut.
INVOKER_FUNCTION(test.fill, input, output) {
  std::uint64_t request[2];
  if (input.size() != sizeof(request)) {
    return invoker::Result::Error("test.fill wants 16 bytes: a uint64 size and a uint64 seed");
  }
  std::memcpy(request, input.data(), sizeof(request));
  const std::uint64_t size = request[0];
  if (!output.Resize(size)) return invoker::Result::TooSmall(size);
  std::uint64_t state = request[1];
  for (std::uint64_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t value = SplitMix64(&state);
    std::memcpy(output.data() + at, &value, std::min<std::uint64_t>(sizeof(value), size - at));
  }
  return invoker::Result::Ok();
}

// The input twice: an answer that does not fit where an echo does.
INVOKER_FUNCTION(test.twice, input, output) {
  output.Append(input.data(), input.size());
  output.Append(input.data(), input.size());
  return invoker::Result::Ok();
}

// A typed function.
INVOKER_FUNCTION(test.repeat, (std::string_view text, std::uint32_t times)->std::string) {
  std::string repeated;
  for (std::uint32_t i = 0; i < times; ++i) repeated += text;
  return repeated;
}
INVOKER_DOC(test.repeat, "the text so many times");
