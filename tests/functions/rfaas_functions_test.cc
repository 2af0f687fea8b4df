// Libraries of rFaaS functions: which of their symbols are offered, and how they are called.

#include <dlfcn.h>
#include <turbojpeg.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/invoke/function/exported_functions.h"
#include "src/invoke/function/function_library.h"

namespace invoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<FunctionLibrary> Load(const std::string& path,
                                      const FunctionLibraryOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<FunctionLibrary>> library = FunctionLibrary::Load(path, options);
  EXPECT_TRUE(library.ok()) << library.status();
  return library.ok() ? *std::move(library) : nullptr;
}

std::vector<std::string> NamesOf(const FunctionLibrary& library) {
  std::vector<std::string> names;
  for (const FunctionEntry& entry : library.functions()) names.push_back(entry.name);
  return names;
}

struct Ended {
  CallOutcome outcome;
  std::string input;   // afterwards
  std::string output;  // all that there was room for
  std::string error;
};

Ended Call(const FunctionLibrary& library, const std::string& name, std::string input,
           size_t capacity = 256) {
  Ended ended;
  const FunctionEntry* found = nullptr;
  for (const FunctionEntry& entry : library.functions()) {
    if (entry.name == name) found = &entry;
  }
  if (found == nullptr) {
    ADD_FAILURE() << name << " is not offered";
    return ended;
  }
  std::vector<uint8_t> in(input.begin(), input.end()), out(capacity + 1, 0xEE);
  in.push_back(0xEE);
  char error[INVOKER_MIN_ERROR_CAPACITY];
  ended.outcome = RunFunction(*found, absl::MakeConstSpan(in).first(input.size()),
                              absl::MakeSpan(out).first(capacity), absl::MakeSpan(error));
  EXPECT_EQ(in.back(), 0xEE) << "written behind the input";
  EXPECT_EQ(out.back(), 0xEE) << "written behind the output";
  ended.input.assign(in.begin(), in.end() - 1);
  ended.output.assign(out.begin(), out.end() - 1);
  ended.error = error;
  return ended;
}

class RfaasFunctionsTest : public testing::TestWithParam<const char*> {};

// The second has the older of the two kinds of hash table only.
INSTANTIATE_TEST_SUITE_P(HashTables, RfaasFunctionsTest,
                         testing::Values("tests/functions/rfaas_functions.so",
                                         "tests/functions/rfaas_functions_sysv_hash.so"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return std::string(info.index == 0 ? "Gnu" : "Sysv");
                         });

TEST_P(RfaasFunctionsTest, PlainExportedFunctionsOfTheLibraryAreOffered) {
  std::unique_ptr<FunctionLibrary> library = Load(GetParam());
  ASSERT_NE(library, nullptr);
  EXPECT_THAT(NamesOf(*library), ElementsAre("empty", "rfaas_nothing", "rfaas_overrun",
                                             "rfaas_reverse", "rfaas_sort", "rfaas_throw"));
  for (const FunctionEntry& entry : library->functions()) EXPECT_EQ(entry.library, GetParam());
}

TEST_P(RfaasFunctionsTest, TheyAreCalledAsTheyAre) {
  std::unique_ptr<FunctionLibrary> library = Load(GetParam());
  ASSERT_NE(library, nullptr);
  Ended reversed = Call(*library, "rfaas_reverse", "hello");
  EXPECT_EQ(reversed.outcome.kind, CallOutcome::Kind::kOk);
  ASSERT_EQ(reversed.outcome.output_size, 5u);
  EXPECT_EQ(reversed.output.substr(0, 5), "olleh");

  // All of the room, and none of it.
  EXPECT_EQ(Call(*library, "rfaas_reverse", "abcd", 4).output, "dcba");
  EXPECT_EQ(Call(*library, "rfaas_nothing", "", 0).outcome.kind, CallOutcome::Kind::kOk);
  EXPECT_EQ(Call(*library, "rfaas_nothing", "x").outcome.output_size, 0u);

  EXPECT_EQ(Call(*library, "empty", "four and more").outcome.output_size, 13u);

  const Ended sorted = Call(*library, "rfaas_sort", "sorted");
  EXPECT_EQ(sorted.output.substr(0, 6), "deorst");
  EXPECT_EQ(sorted.input, "deorst");  // its input is its to change
}

TEST_P(RfaasFunctionsTest, AnExceptionIsAFailedCall) {
  std::unique_ptr<FunctionLibrary> library = Load(GetParam());
  ASSERT_NE(library, nullptr);
  const Ended thrown = Call(*library, "rfaas_throw", "");
  EXPECT_EQ(thrown.outcome.kind, CallOutcome::Kind::kFailed);
  EXPECT_THAT(thrown.error, HasSubstr("thrown by an rFaaS function"));
}

TEST_P(RfaasFunctionsTest, AnOverrunIsAFailedCallThatSaysSo) {
  std::unique_ptr<FunctionLibrary> library = Load(GetParam());
  ASSERT_NE(library, nullptr);
  const Ended overrun = Call(*library, "rfaas_overrun", "", 64);
  EXPECT_EQ(overrun.outcome.kind, CallOutcome::Kind::kFailed);
  EXPECT_EQ(overrun.outcome.code, INVOKER_FAILED);
  EXPECT_THAT(overrun.error, HasSubstr("wrote 4294967295 bytes into room for 64"));
  EXPECT_THAT(overrun.error, HasSubstr("damaged"));
}

struct Overrun {
  std::string function;
  uint64_t written = 0;
  uint64_t capacity = 0;
  int times = 0;
};

Overrun& LastOverrun() {
  static auto* overrun = new Overrun;
  return *overrun;
}

TEST_P(RfaasFunctionsTest, TheOwnerOfTheProcessIsToldOfAnOverrun) {
  FunctionLibraryOptions options;
  options.on_overrun = [](const char* function, uint64_t written, uint64_t capacity) {
    LastOverrun() = {function, written, capacity, LastOverrun().times + 1};
  };
  std::unique_ptr<FunctionLibrary> library = Load(GetParam(), options);
  ASSERT_NE(library, nullptr);
  const int before = LastOverrun().times;
  Call(*library, "rfaas_reverse", "as many as there is room for", 28);
  EXPECT_EQ(LastOverrun().times, before);
  Call(*library, "rfaas_overrun", "", 64);
  EXPECT_EQ(LastOverrun().times, before + 1);
  EXPECT_EQ(LastOverrun().function, "rfaas_overrun");
  EXPECT_EQ(LastOverrun().written, 0xFFFFFFFFu);
  EXPECT_EQ(LastOverrun().capacity, 64u);
}

TEST(RfaasLibraryTest, MessagesCallItWhatTheLoaderWasTold) {
  FunctionLibraryOptions options;
  options.name = "what the client calls it";
  std::unique_ptr<FunctionLibrary> library = Load("tests/functions/rfaas_functions.so", options);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(library->name(), options.name);
  EXPECT_EQ(library->functions().front().library, options.name);
  absl::Status status =
      FunctionLibrary::Load("tests/functions/no_entry_point.so", options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(options.name));
  EXPECT_FALSE(absl::StrContains(status.message(), "no_entry_point.so")) << status;
}

TEST(RfaasLibraryTest, ALibraryWithATableOffersNothingElse) {
  // It exports plain C functions, too: invoker_get_module, for one.
  std::unique_ptr<FunctionLibrary> library = Load("tests/functions/c_functions.so");
  ASSERT_NE(library, nullptr);
  for (const FunctionEntry& entry : library->functions()) {
    EXPECT_TRUE(absl::StartsWith(entry.name, "c.")) << entry.name;
  }
}

// rFaaS's example, with a library of its own to depend on.
TEST(RfaasLibraryTest, TheThumbnailerRunsUnchanged) {
  std::unique_ptr<FunctionLibrary> library = Load("examples/rfaas/librfaas_thumbnailer.so");
  ASSERT_NE(library, nullptr);
  EXPECT_THAT(NamesOf(*library), ElementsAre("thumbnailer"));

  // Left half red, right half blue, much wider than high.
  constexpr int kWidth = 640, kHeight = 80, kSide = 200;
  std::vector<uint8_t> pixels;
  for (int i = 0; i < kWidth * kHeight; ++i) {
    const bool left = i % kWidth < kWidth / 2;
    for (const int value : {left ? 250 : 5, 5, left ? 5 : 250}) pixels.push_back(value);
  }
  unsigned char* jpeg = nullptr;
  unsigned long jpeg_size = 0;
  tjhandle encoder = tjInitCompress();
  ASSERT_EQ(tjCompress2(encoder, pixels.data(), kWidth, 0, kHeight, TJPF_RGB, &jpeg, &jpeg_size,
                        TJSAMP_444, 95, 0),
            0);
  const std::string photograph(reinterpret_cast<char*>(jpeg), jpeg_size);
  tjFree(jpeg);
  tjDestroy(encoder);

  const Ended ended = Call(*library, "thumbnailer", photograph, 64 << 10);
  ASSERT_EQ(ended.outcome.kind, CallOutcome::Kind::kOk) << ended.error;
  tjhandle decoder = tjInitDecompress();
  const auto* thumbnail = reinterpret_cast<const uint8_t*>(ended.output.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  ASSERT_EQ(tjDecompressHeader3(decoder, thumbnail, ended.outcome.output_size, &width, &height,
                                &subsampling, &colours),
            0);
  EXPECT_EQ(width, kSide);
  EXPECT_EQ(height, kSide);
  std::vector<uint8_t> small(kSide * kSide * 3);
  ASSERT_EQ(tjDecompress2(decoder, thumbnail, ended.outcome.output_size, small.data(), 0, 0, 0,
                          TJPF_RGB, 0),
            0);
  tjDestroy(decoder);
  const uint8_t* left = &small[(100 * kSide + 50) * 3];
  const uint8_t* right = &small[(100 * kSide + 150) * 3];
  EXPECT_GT(left[0], 200);
  EXPECT_LT(left[2], 50);
  EXPECT_LT(right[0], 50);
  EXPECT_GT(right[2], 200);

  EXPECT_EQ(Call(*library, "thumbnailer", "not a picture").outcome.output_size, 0u);
}

TEST(ExportedFunctionsTest, ALargeLibraryWithVersionsOfNamesCanBeRead) {
  void* handle = dlopen("libc.so.6", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  absl::StatusOr<std::vector<ExportedFunction>> functions = ExportedFunctions(handle);
  ASSERT_TRUE(functions.ok()) << functions.status();
  EXPECT_GT(functions->size(), 500u);
  const ExportedFunction* found = nullptr;
  for (size_t i = 0; i < functions->size(); ++i) {
    const ExportedFunction& function = (*functions)[i];
    EXPECT_NE(function.address, nullptr) << function.name;
    EXPECT_TRUE(i == 0 || (*functions)[i - 1].name < function.name) << function.name;
    if (function.name == "qsort") found = &function;
  }
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->address, dlsym(handle, "qsort"));
  dlclose(handle);
}

}  // namespace
}  // namespace invoker
