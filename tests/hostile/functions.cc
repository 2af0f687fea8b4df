// What the hostile suite's server runs: functions that count how often they have run, by who calls
// them.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "src/invoke/function.h"

namespace {

std::atomic<std::uint64_t> honest{0};  // by the victim
std::atomic<std::uint64_t> own{0};     // by the attacker, in a session of its own
std::atomic<std::uint64_t> forged{0};  // by nobody who may

}  // namespace

INVOKER_FUNCTION(echo, input, output) {
  honest.fetch_add(1, std::memory_order_relaxed);
  output.Append(input.data(), input.size());
  return invoker::Result::Ok();
}

// Long enough for an attacker to answer in its place.
INVOKER_FUNCTION(slow_echo, input, output) {
  honest.fetch_add(1, std::memory_order_relaxed);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  output.Append(input.data(), input.size());
  return invoker::Result::Ok();
}

INVOKER_FUNCTION(own_call, input, output) {
  own.fetch_add(1, std::memory_order_relaxed);
  output.Append(input.data(), input.size());
  return invoker::Result::Ok();
}

INVOKER_FUNCTION(forged_call, input, output) {
  forged.fetch_add(1, std::memory_order_relaxed);
  output.Append(input.data(), input.size());
  return invoker::Result::Ok();
}

// The three, 64 bits each.
INVOKER_FUNCTION(counts, input, output) {
  const std::uint64_t now[] = {honest.load(), own.load(), forged.load()};
  output.Append(reinterpret_cast<const std::uint8_t*>(now), sizeof(now));
  return invoker::Result::Ok();
}
