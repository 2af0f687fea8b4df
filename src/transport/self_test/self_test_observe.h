// Observations of a self-test beside whether messages cross. Nothing here decides anything. One
// thread calls.

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_OBSERVE_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_OBSERVE_H_

#include <cstdint>

#include "src/transport/self_test/self_test.h"
#include "src/transport/self_test/self_test_pair.h"

namespace invoker::transport {

// One write-with-immediate of as many bytes of immediate as the fabric claims, read from the
// completion queue as it is. The pair must be drained.
void ObserveImmediateEntry(SelfTestPair* pair, int64_t deadline_ns, SelfTestResult* result);

// Sends right behind their writes, whether or not the fabric promises an order.
void ObserveSendOrder(SelfTestPair* pair, int64_t deadline_ns, SelfTestResult* result);

// Additions to a counter of the other side.
void ObserveAtomics(SelfTestPair* pair, int64_t deadline_ns, SelfTestResult* result);

// Whether an arrival ends a sleep.
void ObserveWait(SelfTestPair* pair, const Notifier* notifier, int64_t deadline_ns,
                 SelfTestResult* result);

void ObserveRoundTrips(SelfTestPair* pair, const Notifier* notifier, int64_t deadline_ns,
                       SelfTestResult* result);

// Measures which is faster, a long message in pieces or in one write. Each side has a thread of its
// own meanwhile, as in a session. Only where the profile may send pieces.
void ObserveMethods(SelfTestPair* pair, int64_t deadline_ns, SelfTestResult* result);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_OBSERVE_H_
