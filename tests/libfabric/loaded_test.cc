// Checks which libfabric the tests load. `tools/test --libfabric=DIR` names a directory in
// INVOKER_TEST_LIBFABRIC; this test fails if any process of ours loads a libfabric from elsewhere.
// tools/test prints the properties "libfabric" and "libfabric_file".

#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "invoker/lease.h"
#include "tests/lease/leased_server.h"

namespace invoker {
namespace {

constexpr char kLibrary[] = "libfabric.so.1";

// The files named libfabric.so* that the process has mapped, without symbolic links.
std::set<std::string> LibfabricsOf(pid_t pid) {
  std::set<std::string> found;
  std::ifstream maps(absl::StrCat("/proc/", pid, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const std::string file = line.substr(path);
    if (absl::StrContains(file, "/libfabric.so")) found.insert(file);
  }
  return found;
}

// The only one that this process has mapped, or that the environment asks for.
std::set<std::string> Expected() {
  const char* directory = std::getenv("INVOKER_TEST_LIBFABRIC");
  if (directory == nullptr) return LibfabricsOf(getpid());
  return {std::filesystem::canonical(std::filesystem::path(directory) / kLibrary).string()};
}

TEST(Loaded, ThisProcessHasOneLibfabric) {
  const std::set<std::string> loaded = LibfabricsOf(getpid());
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded, Expected());
  // The version is asked for by a call, so it is that of the library that runs.
  const uint32_t version = fi_version();
  RecordProperty("libfabric", absl::StrCat(FI_MAJOR(version), ".", FI_MINOR(version)));
  RecordProperty("libfabric_file", *loaded.begin());
}

TEST(Loaded, AServerAndItsExecutorsHaveTheSame) {
  auto server = StartLeasedServer("tcp;ofi_rxm", /*cores=*/1);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(LibfabricsOf((*server)->pid()), Expected());
  const std::set<pid_t> before = DescendantsOf((*server)->pid());
  const auto lease = Lease::Acquire((*server)->address());
  ASSERT_TRUE(lease.ok()) << lease.status();
  // The lease has started several processes. At least the executor itself uses a fabric.
  int executors = 0;
  for (const pid_t pid : DescendantsOf((*server)->pid())) {
    if (before.count(pid) != 0) continue;
    const std::set<std::string> loaded = LibfabricsOf(pid);
    if (loaded.empty()) continue;
    ++executors;
    EXPECT_EQ(loaded, Expected()) << "process " << pid;
  }
  EXPECT_GT(executors, 0);
  EXPECT_TRUE((*lease)->Release().ok());
  EXPECT_EQ((*server)->Stop(), 0);
}

}  // namespace
}  // namespace invoker
