// rFaaS functions, unchanged, on a real server: from C++ and from the command line.

#include <gmock/gmock.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

using testing::HasSubstr;

constexpr char kRfaasFunctions[] = "tests/functions/rfaas_functions.so";
constexpr char kThumbnailer[] = "examples/rfaas/librfaas_thumbnailer.so";

class RfaasServerTest : public FabricTest {
 protected:
  ServerProcess* StartWithLibraries() {
    ServerProcessOptions options;
    options.functions = {kRfaasFunctions, kThumbnailer, kCFunctions};
    return StartServer(options);
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, RfaasServerTest, BothProviders(), FabricName);

// A gray picture with a bright middle.
std::string Photograph() {
  constexpr int kSide = 320;
  std::vector<unsigned char> pixels(kSide * kSide, 40);
  for (int y = 80; y < 240; ++y) {
    std::fill_n(pixels.begin() + y * kSide + 80, 160, 220);
  }
  unsigned char* jpeg = nullptr;
  unsigned long size = 0;
  tjhandle encoder = tjInitCompress();
  EXPECT_EQ(tjCompress2(encoder, pixels.data(), kSide, 0, kSide, TJPF_GRAY, &jpeg, &size,
                        TJSAMP_GRAY, 95, 0),
            0);
  std::string photograph(reinterpret_cast<char*>(jpeg), size);
  tjFree(jpeg);
  tjDestroy(encoder);
  return photograph;
}

void ExpectThumbnail(const std::string& jpeg) {
  constexpr int kSide = 200;
  tjhandle decoder = tjInitDecompress();
  const auto* bytes = reinterpret_cast<const unsigned char*>(jpeg.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  ASSERT_EQ(
      tjDecompressHeader3(decoder, bytes, jpeg.size(), &width, &height, &subsampling, &colours), 0);
  EXPECT_EQ(width, kSide);
  EXPECT_EQ(height, kSide);
  std::vector<unsigned char> pixels(kSide * kSide);
  ASSERT_EQ(tjDecompress2(decoder, bytes, jpeg.size(), pixels.data(), 0, 0, 0, TJPF_GRAY, 0), 0);
  tjDestroy(decoder);
  EXPECT_NEAR(pixels[10 * kSide + 10], 40, 10);
  EXPECT_NEAR(pixels[100 * kSide + 100], 220, 10);
}

TEST_P(RfaasServerTest, ALibraryIsOfferedByTheNamesOfItsFunctions) {
  ServerProcess* server = StartWithLibraries();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->ready()["functions"],
            nlohmann::json({"empty", "rfaas_nothing", "rfaas_overrun", "rfaas_reverse",
                            "rfaas_sort", "rfaas_throw", "thumbnailer", "c.reverse", "c.refuse",
                            "c.greet.en", "c.greet.de"}));
}

TEST_P(RfaasServerTest, FunctionsRunUnchanged) {
  ServerProcess* server = StartWithLibraries();
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  // Several in one turn: each may change its own input, and no other's.
  std::vector<Future> futures;
  const RemoteFunction sort = FunctionNamed(*client, "rfaas_sort");
  const auto unsorted = [](int i) { return absl::StrCat("zyx", i, "cba"); };
  for (int i = 0; i < 50; ++i) futures.push_back(client->InvokeAsync(sort, unsorted(i)));
  for (int i = 0; i < 50; ++i) {
    absl::StatusOr<Response> response = futures[i].Get();
    ASSERT_TRUE(response.ok()) << response.status();
    std::string expected = unsorted(i);
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(response->text(), expected);
  }
  absl::StatusOr<Response> thumbnail = client->Invoke(
      FunctionNamed(*client, "thumbnailer"), Photograph(), {.response_capacity = 64 << 10});
  ASSERT_TRUE(thumbnail.ok()) << thumbnail.status();
  ExpectThumbnail(std::string(thumbnail->text()));
}

TEST_P(RfaasServerTest, AFunctionThatWritesBeyondItsRoomFailsAndSaysSo) {
  ServerProcess* server = StartWithLibraries();
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  absl::StatusOr<Response> overrun =
      client->Invoke(FunctionNamed(*client, "rfaas_overrun"), "", {.response_capacity = 256});
  ASSERT_FALSE(overrun.ok());
  EXPECT_THAT(std::string(overrun.status().message()), HasSubstr("4294967295 bytes into room"));
  // The function lied, so the executor goes on.
  EXPECT_TRUE(client->Invoke(FunctionNamed(*client, "rfaas_reverse"), "hello").ok());
}

TEST_P(RfaasServerTest, TheCommandLineCallsThem) {
  ServerProcess* server = StartWithLibraries();
  ASSERT_NE(server, nullptr);
  std::string directory = testing::TempDir() + "/rfaas.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const absl::Cleanup remove = [&directory] { std::filesystem::remove_all(directory); };
  const std::string photograph = directory + "/photograph.jpg";
  const std::string thumbnail = directory + "/thumbnail.jpg";
  std::ofstream(photograph, std::ios::binary) << Photograph();
  const Finished finished =
      RunToEnd({{"tools/invoker", "call", "thumbnailer", "--server=" + server->address(),
                 "--input=" + photograph, "--output=" + thumbnail}});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  std::ifstream file(thumbnail, std::ios::binary);
  ExpectThumbnail(std::string((std::istreambuf_iterator<char>(file)), {}));
}

}  // namespace
}  // namespace invoker
