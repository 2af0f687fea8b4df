// Files in /dev/shm that a process with this one's number has left when it was killed: endpoints of
// shm are named after both, and come up all the same.

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/transport/local_fabric.h"

namespace invoker::transport {
namespace {

constexpr absl::string_view kPlace = "/dev/shm/";
constexpr int kStale = 20;

// The file that an endpoint of shm has there.
std::string FileOf(const Endpoint& endpoint) {
  const std::string address(endpoint.address().c_str());
  absl::string_view name = address;
  EXPECT_TRUE(absl::ConsumePrefix(&name, "fi_shm://")) << address;
  return absl::StrCat(kPlace, name);
}

// The name without its last number, which counts the endpoints of the process, and that number.
std::pair<std::string, int> Split(const std::string& file) {
  const size_t colon = file.rfind(':');
  return {file.substr(0, colon + 1), std::stoi(file.substr(colon + 1))};
}

class StaleNameTest : public testing::Test {
 protected:
  ~StaleNameTest() override {
    for (const std::string& file : stale_) unlink(file.c_str());
  }

  // As another endpoint of this process would have left it.
  void Leave(const std::string& file, const std::string& like) {
    std::filesystem::copy_file(like, file);
    stale_.insert(file);
  }

  std::set<std::string> stale_;
};

TEST_F(StaleNameTest, AnEndpointTakesTheNextName) {
  const std::unique_ptr<LocalFabric> first = LocalFabric::Open("shm");
  ASSERT_NE(first, nullptr);
  const std::string file = FileOf(*first->endpoint);
  ASSERT_TRUE(std::filesystem::exists(file)) << file;
  const auto [prefix, number] = Split(file);
  for (int i = 1; i <= kStale; ++i) {
    ASSERT_NO_FATAL_FAILURE(Leave(absl::StrCat(prefix, number + i), file));
  }

  std::unique_ptr<LocalFabric> next = LocalFabric::Open("shm");
  ASSERT_NE(next, nullptr);
  const std::string taken = FileOf(*next->endpoint);
  EXPECT_EQ(Split(taken).first, prefix);
  EXPECT_GT(Split(taken).second, number + kStale);
  next.reset();
  EXPECT_FALSE(std::filesystem::exists(taken));
  // The live one's is another's affair.
  EXPECT_TRUE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace invoker::transport
