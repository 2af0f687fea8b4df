// The fabric that this run of the conformance suite is about, and the ways to write on it.
//
// From the environment:
//   INVOKER_TEST_FABRIC   libfabric's name of the provider; required
//   INVOKER_TEST_ADDRESS  our side's IP address, interface or domain; empty: the provider's choice
//   INVOKER_TEST_LABEL    what reports call this run; empty: the provider's name
//   INVOKER_TEST_LIMITS   "Suite.Test: reason; Suite.Test/Parameter: reason; ...": what the fabric
//                         is known not to do, and why
//   INVOKER_TEST_EXPECT   "property=value,...": what Invoker must find the fabric to be
//                         (expectations_test.cc); empty: nothing is compared
//   INVOKER_TEST_EXPECT_2 the same with libfabric 1.18 and later, where that differs
//   INVOKER_TEST_SCALE    how often repeated things are repeated, in percent; 100 if empty
//
// What a fabric must do is asked of its profile, never of its name. A test of something that the
// fabric does not have is skipped, and says why; that of a known limit says so with "limit: " in
// front.

#ifndef INVOKER_TESTS_CONFORMANCE_TESTED_FABRIC_H_
#define INVOKER_TESTS_CONFORMANCE_TESTED_FABRIC_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/transport/discovery/discovery.h"
#include "tests/transport/node.h"

namespace invoker::conformance {

struct TestedFabric {
  transport::FabricRequest request;
  std::string label;
  absl::Status status;         // the discovery's
  transport::Profile profile;  // if that is OK
  uint32_t address_format = 0;
};

// Read and discovered once. On the main thread first.
const TestedFabric& Tested();

// `count`, or fewer where the fabric is slow; at least `least`.
uint32_t Scaled(uint32_t count, uint32_t least = 1);

// A node on the fabric. Fails the test and returns nullptr if there is none.
std::unique_ptr<transport::Node> OpenNode(size_t bytes,
                                          const transport::ReactorOptions& options = {});

// Every way to notify. WhyUnsupported says which of them the fabric has.
std::vector<transport::Way> EveryWay();

// The way in which the fabric's sessions write by themselves.
transport::Way PreferredWay();

// Empty, or why the fabric has no such way.
std::string WhyUnsupported(const transport::Way& way);

// Different for every message and every position in it.
void Stamp(std::byte* memory, size_t length, uint32_t message);
// The first position that has not the message's stamp; `length` if there is none.
size_t FirstDifference(const std::byte* memory, size_t length, uint32_t message);

// Empty if the fabric was found, or if it should have been; else why this libfabric has none.
std::string WhyAbsent();

// Empty, or why the running test asks for what the fabric is known not to do.
std::string KnownLimit();

// Skipped where this libfabric has no such fabric. Fails where the fabric cannot be found, or where
// something is left once everything that a test owns has gone: a process, shared memory.
class FabricSuite : public testing::Test {
 protected:
  ~FabricSuite() override;
  void SetUp() override;
};

// Repeats its tests for every way; skipped where the fabric does not have it.
class WaysSuite : public FabricSuite, public testing::WithParamInterface<transport::Way> {
 protected:
  void SetUp() override;
};

}  // namespace invoker::conformance

#endif  // INVOKER_TESTS_CONFORMANCE_TESTED_FABRIC_H_
