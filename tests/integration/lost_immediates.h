// Endpoints on which a write with an immediate arrives as a plain write: what a fabric does that
// drops immediates without a word.
//
// This file's .cc defines fi_fabric, so that it comes between the program and libfabric: link it
// into the one test that wants it.

#ifndef INVOKER_TESTS_INTEGRATION_LOST_IMMEDIATES_H_
#define INVOKER_TESTS_INTEGRATION_LOST_IMMEDIATES_H_

namespace invoker {

// While one exists, every endpoint that is opened loses immediates, for as long as it lives; or
// refuses to post them, with -FI_EOPNOTSUPP.
class LoseImmediates {
 public:
  enum class How { kSilently, kRefused };
  explicit LoseImmediates(How how = How::kSilently);
  ~LoseImmediates();
  LoseImmediates(const LoseImmediates&) = delete;
  LoseImmediates& operator=(const LoseImmediates&) = delete;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_LOST_IMMEDIATES_H_
