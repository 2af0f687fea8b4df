// Endpoints on which a write with an immediate arrives as a plain write: what a fabric does that
// drops immediates without a word.
//
// This file's .cc defines fi_fabric, so that it comes between the program and libfabric: link it
// into the one test that wants it.

#ifndef INVOKER_TESTS_INTEGRATION_LOST_IMMEDIATES_H_
#define INVOKER_TESTS_INTEGRATION_LOST_IMMEDIATES_H_

#include <string>

namespace invoker {

// While one exists, every endpoint that is opened (of `provider` only, unless that is empty) loses
// immediates, for as long as it lives.
class LoseImmediates {
 public:
  enum class How {
    kSilently,
    kRefused,             // posting one fails with -FI_EOPNOTSUPP
    kWithAllElseRefused,  // lost silently; everything else is refused, so that nothing works
    kWithEverything,      // everything is refused
  };
  explicit LoseImmediates(How how = How::kSilently, const std::string& provider = "");
  ~LoseImmediates();
  LoseImmediates(const LoseImmediates&) = delete;
  LoseImmediates& operator=(const LoseImmediates&) = delete;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_LOST_IMMEDIATES_H_
