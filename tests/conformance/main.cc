// Runs the conformance suite, or the part that --gtest_filter names, on the fabric that the
// environment names (tested_fabric.h). Also the program of its own peer processes.
//
// Outside Bazel it finds the programs that it starts in the directory SUITE.runfiles beside it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/conformance/calls_suite.h"
#include "tests/conformance/peer_process.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

// The conditions of the run, for the reader of the results.
class Conditions : public testing::Environment {
 public:
  void SetUp() override {
    const TestedFabric& tested = Tested();
    testing::Test::RecordProperty("fabric", tested.label);
    // The row's, unless the contract is emulated of a provider that has been seen itself.
    const char* evidence = std::getenv("INVOKER_TEST_EVIDENCE");
    testing::Test::RecordProperty(
        "evidence", evidence != nullptr
                        ? evidence
                        : std::string(transport::EvidenceName(tested.profile.evidence)));
    testing::Test::RecordProperty(
        "libfabric", absl::StrCat(FI_MAJOR(fi_version()), ".", FI_MINOR(fi_version())));
    std::printf("fabric %s, address %s: %s\n", tested.request.provider.c_str(),
                tested.request.address.empty() ? "any" : tested.request.address.c_str(),
                tested.status.ToString().c_str());
  }
};

// Into the run files, unless this already is where they are.
void FindRunFiles(const std::string& program) {
  if (access("tools/invoker_server", X_OK) == 0) return;
  const std::string beside = program + ".runfiles/invoker";
  if (chdir(beside.c_str()) != 0) {
    std::fprintf(stderr, "warning: no run files at %s: whole calls cannot be tested\n",
                 beside.c_str());
  }
}

}  // namespace
}  // namespace invoker::conformance

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == invoker::conformance::kPeerFlag) return invoker::conformance::RunPeer(argc, argv);
  if (role == invoker::conformance::kClientFlag) return invoker::conformance::RunClient(argc, argv);
  if (role == invoker::conformance::kHolderFlag) return invoker::conformance::RunHolder(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  invoker::conformance::FindRunFiles(argv[0]);
  testing::AddGlobalTestEnvironment(new invoker::conformance::Conditions);
  return RUN_ALL_TESTS();
}
