// A small seeded generator (splitmix64), so that a decision is a pure function of a seed and an
// index and a failing run can be repeated exactly. Not for keys or names.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_PRNG_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_PRNG_H_

#include <cstdint>

namespace contract {

// One 64-bit value from two, every bit of which depends on every bit of both.
inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9e3779b97f4a7c15u * (b + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class Prng {
 public:
  explicit Prng(uint64_t seed) : seed_(seed) {}

  uint64_t Next() { return Mix(seed_, index_++); }
  // In [0, bound); 0 for a bound of 0.
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }
  // In [low, high].
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

 private:
  uint64_t seed_;
  uint64_t index_ = 0;
};

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_PRNG_H_
