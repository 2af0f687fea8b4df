// What the hostile suite's server runs: functions that count how often they have run, by who calls
// them.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "invoker/function.h"

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

INVOKER_FUNCTION(own_arrays, (invoker::ArrayView<const double, 2> a, std::string_view text,
                              std::vector<std::string> list)
                                 ->std::vector<std::string>) {
  if (a.size() * sizeof(double) > 4096 || text.size() > 4096) std::abort();  // more than came
  return list;
}

// The same, held: input is the paths of two pipes with a space between them. It writes a byte into
// the first, and ends when it has read one from the second, or nobody has that open any more.
INVOKER_FUNCTION(own_hold, input, output) {
  own.fetch_add(1, std::memory_order_relaxed);
  const std::string paths(input.text());
  const std::size_t space = std::min(paths.find(' '), paths.size());
  const int started = open(paths.substr(0, space).c_str(), O_WRONLY | O_CLOEXEC);
  const int release =
      open(paths.substr(std::min(space + 1, paths.size())).c_str(), O_RDONLY | O_CLOEXEC);
  char byte = 1;
  const bool held =
      started >= 0 && release >= 0 && write(started, &byte, 1) == 1 && read(release, &byte, 1) == 1;
  if (started >= 0) close(started);
  if (release >= 0) close(release);
  if (!held) return invoker::Result::Error("own_hold: no pipes at " + paths);
  output.Append("held");
  return invoker::Result::Ok();
}

namespace {

std::mutex kept_mutex;
std::vector<invoker::Reply<void>> kept;

}  // namespace

// Answers when own_release runs.
INVOKER_FUNCTION(own_keep, (invoker::Reply<void> reply)->void) {
  const std::lock_guard<std::mutex> lock(kept_mutex);
  kept.push_back(std::move(reply));
}

// How many calls of own_keep there are. It answers them.
INVOKER_FUNCTION(own_release, ()->std::uint64_t) {
  const std::lock_guard<std::mutex> lock(kept_mutex);
  const std::uint64_t released = kept.size();
  for (invoker::Reply<void>& reply : kept) reply();
  kept.clear();
  return released;
}

// The three, 64 bits each.
INVOKER_FUNCTION(counts, input, output) {
  const std::uint64_t now[] = {honest.load(), own.load(), forged.load()};
  output.Append(reinterpret_cast<const std::uint8_t*>(now), sizeof(now));
  return invoker::Result::Ok();
}
