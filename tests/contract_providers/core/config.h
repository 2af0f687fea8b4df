// The knobs: environment variables, read when a fabric is opened. README.md lists them.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_CONFIG_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace contract {

struct Config {
  uint64_t seed = 0;
  // CONTRACT_FREEDOMS: all (default), none, or a comma-separated list of these names.
  bool late = true;         // "late": operations leave and are placed some polls later
  bool pieces = true;       // "pieces": a write is placed in shuffled pieces
  bool completions = true;  // "completions": out of order, and before placement
  bool again = true;        // "again": posts are refused with -FI_EAGAIN
  bool entries = true;      // "entries": what a completion entry does not promise is garbage
  // Polls that one stage of an operation (leaving, one piece, completing) may take at most.
  uint32_t lateness = 12;
  // Refusals of the first posts to a peer, at most.
  uint32_t storm = 8;
  // The provider that carries the packets, and the address it is opened on if that is an IP one.
  std::string inner_provider = "shm";
  std::string inner_node = "127.0.0.1";

  // False, and a word on standard error, if a knob has a value that means nothing.
  static bool FromEnvironment(Config* config);
};

// A knob that is a number; `fallback` where it is not set or is no number.
uint64_t NumberFromEnvironment(const char* name, uint64_t fallback);

// Bits that nobody can foresee: names and keys, so that two processes with one seed do not meet.
uint64_t Entropy();

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_CONFIG_H_
