// What a fuzz target asserts: in every build, and with a word about where.

#ifndef INVOKER_TESTS_FUZZ_CHECK_H_
#define INVOKER_TESTS_FUZZ_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define FUZZ_CHECK(condition)                                                        \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                       \
    }                                                                                \
  } while (false)

#endif  // INVOKER_TESTS_FUZZ_CHECK_H_
