// Loads the example library as a worker does and calls its functions on real input.

#include <gtest/gtest.h>
#include <turbojpeg.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/invoke/function/function_library.h"
#include "src/invoke/function/function_registry.h"

namespace invoker {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr char kPhotograph[] = "/usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg";

struct Answer {
  CallOutcome outcome;
  Bytes output;
  std::string error;
};

// The same as on the wire: both buffers 32 bytes into a 64-byte-aligned cell.
struct AlignedBuffer {
  explicit AlignedBuffer(std::size_t size)
      : memory(static_cast<std::uint8_t*>(std::aligned_alloc(64, (32 + size + 63) / 64 * 64)),
               &std::free),
        data(memory.get() + 32) {}
  std::unique_ptr<std::uint8_t, decltype(&std::free)> memory;
  std::uint8_t* data;
};

class ExampleFunctionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto library = FunctionLibrary::Load("examples/functions/libexample_functions.so");
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *std::move(library);
    ASSERT_TRUE(library_->RegisterAll(&registry_).ok());
  }

  Answer Call(const std::string& name, const Bytes& input, std::size_t capacity = 1 << 20) const {
    const auto id = registry_.FindId(name);
    if (!id.has_value()) return {CallOutcome(), {}, "not registered"};
    AlignedBuffer in(input.size()), out(capacity);
    if (!input.empty()) std::memcpy(in.data, input.data(), input.size());
    char error[256];
    Answer answer;
    answer.outcome = RunFunction(*registry_.Find(*id), absl::MakeConstSpan(in.data, input.size()),
                                 absl::MakeSpan(out.data, capacity), absl::MakeSpan(error));
    answer.output.assign(out.data, out.data + answer.outcome.output_size);
    answer.error = error;
    return answer;
  }

  std::unique_ptr<FunctionLibrary> library_;
  FunctionRegistry registry_;
};

Bytes ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

struct Decoded {
  int width = 0;
  int height = 0;
  int colours = -1;
  Bytes rgb;
};

Decoded Decode(const Bytes& jpeg) {
  Decoded picture;
  int subsampling = 0;
  tjhandle handle = tjInitDecompress();
  if (tjDecompressHeader3(handle, jpeg.data(), jpeg.size(), &picture.width, &picture.height,
                          &subsampling, &picture.colours) == 0) {
    picture.rgb.resize(3u * picture.width * picture.height);
    EXPECT_EQ(tjDecompress2(handle, jpeg.data(), jpeg.size(), picture.rgb.data(), picture.width, 0,
                            picture.height, TJPF_RGB, TJFLAG_STOPONWARNING),
              0);
  }
  tjDestroy(handle);
  return picture;
}

Bytes Encode(const Bytes& pixels, int width, int height, int format, int subsampling,
             int flags = 0) {
  tjhandle handle = tjInitCompress();
  unsigned char* jpeg = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(handle, pixels.data(), width, 0, height, format, &jpeg, &size, subsampling,
                        95, flags),
            0);
  Bytes result(jpeg, jpeg + size);
  tjFree(jpeg);
  tjDestroy(handle);
  return result;
}

// Mean colour of one quarter of a picture: 0 top left, 1 top right, 2 bottom left, 3 bottom right.
std::array<double, 3> MeanColour(const Decoded& picture, int quarter) {
  std::array<double, 3> mean = {};
  const int x0 = quarter % 2 * picture.width / 2, y0 = quarter / 2 * picture.height / 2;
  const int w = picture.width / 2, h = picture.height / 2;
  for (int y = y0; y < y0 + h; ++y) {
    for (int x = x0; x < x0 + w; ++x) {
      for (int c = 0; c < 3; ++c) mean[c] += picture.rgb[3 * (y * picture.width + x) + c];
    }
  }
  for (double& value : mean) value /= w * h;
  return mean;
}

TEST_F(ExampleFunctionsTest, EchoReturnsItsInput) {
  for (const std::size_t size : {0, 1, 31, 32, 33, 4096, 100001}) {
    Bytes input(size);
    for (std::size_t i = 0; i < size; ++i) input[i] = static_cast<std::uint8_t>(i * 7 + 1);
    const Answer answer = Call("echo", input);
    EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kOk);
    EXPECT_EQ(answer.output, input);
  }
}

TEST_F(ExampleFunctionsTest, EchoSaysHowMuchRoomItNeeds) {
  const Answer answer = Call("echo", Bytes(100), 99);
  EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kOutputTooSmall);
  EXPECT_EQ(answer.outcome.output_needed, 100u);
}

TEST_F(ExampleFunctionsTest, ThumbnailOfAPhotographIsThatPhotographSmall) {
  const Bytes photograph = ReadFile(kPhotograph);
  ASSERT_FALSE(photograph.empty()) << "install python-matplotlib-data: " << kPhotograph;
  const Answer answer = Call("thumbnail", photograph);
  ASSERT_EQ(answer.outcome.kind, CallOutcome::Kind::kOk) << answer.error;

  const Decoded source = Decode(photograph), small = Decode(answer.output);
  ASSERT_EQ(source.width, 512);
  ASSERT_EQ(source.height, 600);
  EXPECT_EQ(small.width, 109);  // 512 * 128 / 600 = 109.2
  EXPECT_EQ(small.height, 128);
  for (int quarter = 0; quarter < 4; ++quarter) {
    const auto expected = MeanColour(source, quarter), actual = MeanColour(small, quarter);
    for (int c = 0; c < 3; ++c) {
      EXPECT_NEAR(actual[c], expected[c], 4.0) << "quarter " << quarter << " channel " << c;
    }
  }
}

TEST_F(ExampleFunctionsTest, ThumbnailIsTheSameEveryTimeAndOnEveryThread) {
  const Bytes photograph = ReadFile(kPhotograph);
  const Bytes expected = Call("thumbnail", photograph).output;
  ASSERT_FALSE(expected.empty());
  std::vector<std::thread> threads;
  std::array<Bytes, 4> actual;
  for (Bytes& bytes : actual) {
    threads.emplace_back([&] { bytes = Call("thumbnail", photograph).output; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Bytes& bytes : actual) EXPECT_EQ(bytes, expected);
}

TEST_F(ExampleFunctionsTest, ThumbnailFitsEveryShapeInto128Pixels) {
  struct Case {
    int width, height, expected_width, expected_height;
  };
  for (const Case& c : {Case{1, 1, 1, 1}, Case{128, 128, 128, 128}, Case{129, 129, 128, 128},
                        Case{100, 30, 100, 30}, Case{2048, 1, 128, 1}, Case{3, 999, 1, 128},
                        Case{4000, 3000, 128, 96}, Case{300, 299, 128, 128}}) {
    SCOPED_TRACE(std::to_string(c.width) + "x" + std::to_string(c.height));
    const Bytes pixels(3u * c.width * c.height, 77);
    const Answer answer =
        Call("thumbnail", Encode(pixels, c.width, c.height, TJPF_RGB, TJSAMP_420));
    ASSERT_EQ(answer.outcome.kind, CallOutcome::Kind::kOk) << answer.error;
    const Decoded small = Decode(answer.output);
    EXPECT_EQ(small.width, c.expected_width);
    EXPECT_EQ(small.height, c.expected_height);
    for (const std::uint8_t value : small.rgb) ASSERT_NEAR(value, 77, 2);
  }
}

TEST_F(ExampleFunctionsTest, ThumbnailOfGrayIsGrayAndOfProgressiveIsFine) {
  const Bytes pixels(300 * 200, 90);
  const Answer gray = Call("thumbnail", Encode(pixels, 300, 200, TJPF_GRAY, TJSAMP_GRAY));
  ASSERT_EQ(gray.outcome.kind, CallOutcome::Kind::kOk) << gray.error;
  EXPECT_EQ(Decode(gray.output).colours, TJCS_GRAY);
  const Answer progressive =
      Call("thumbnail", Encode(pixels, 300, 200, TJPF_GRAY, TJSAMP_GRAY, TJFLAG_PROGRESSIVE));
  ASSERT_EQ(progressive.outcome.kind, CallOutcome::Kind::kOk) << progressive.error;
  EXPECT_EQ(Decode(progressive.output).width, 128);
}

TEST_F(ExampleFunctionsTest, ThumbnailRefusesCmyk) {
  const Answer answer =
      Call("thumbnail", Encode(Bytes(4 * 16 * 16, 5), 16, 16, TJPF_CMYK, TJSAMP_444));
  EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kFailed);
  EXPECT_NE(answer.error.find("CMYK"), std::string::npos) << answer.error;
}

TEST_F(ExampleFunctionsTest, ThumbnailRefusesWhatIsNoJpeg) {
  for (const Bytes& input : {Bytes(), Bytes(1, 0xFF), Bytes(5000, 0x5A), Bytes{0xFF, 0xD8, 0xFF}}) {
    const Answer answer = Call("thumbnail", input);
    EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kFailed);
    EXPECT_NE(answer.error.find("JPEG"), std::string::npos) << answer.error;
  }
}

TEST_F(ExampleFunctionsTest, ThumbnailRefusesACutFileAtAnyLength) {
  const Bytes photograph = ReadFile(kPhotograph);
  for (std::size_t size = 0; size + 100 < photograph.size(); size += 997) {
    const Answer answer =
        Call("thumbnail", Bytes(photograph.begin(), photograph.begin() + static_cast<long>(size)));
    EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kFailed) << size;
    EXPECT_NE(answer.error, "") << size;
  }
}

TEST_F(ExampleFunctionsTest, ThumbnailSurvivesDamage) {
  const Bytes photograph = ReadFile(kPhotograph);
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Bytes damaged = photograph;
    for (int i = 0; i < 5; ++i) {
      // Most of them in the headers, where it hurts.
      const std::size_t limit = i < 3 ? 700 : damaged.size();
      damaged[2 + random() % (limit - 2)] = static_cast<std::uint8_t>(random());
    }
    const Answer answer = Call("thumbnail", damaged);
    if (answer.outcome.kind == CallOutcome::Kind::kOk) {
      EXPECT_LE(Decode(answer.output).width, 128);
    } else {
      EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kFailed);
      EXPECT_NE(answer.error, "");
    }
  }
}

TEST_F(ExampleFunctionsTest, ThumbnailRefusesHugeDimensionsBeforeDecoding) {
  // The dimensions are in the frame header, marker FFC0: length, precision, height, width.
  Bytes bomb = Encode(Bytes(3 * 16 * 16), 16, 16, TJPF_RGB, TJSAMP_444);
  std::size_t at = 0;
  while (bomb[at] != 0xFF || bomb[at + 1] != 0xC0) ASSERT_LT(++at, bomb.size() - 9);
  std::memset(&bomb[at + 5], 0xFE, 4);
  const Answer answer = Call("thumbnail", bomb);
  EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kFailed);
  EXPECT_NE(answer.error.find("65278x65278"), std::string::npos) << answer.error;
}

TEST_F(ExampleFunctionsTest, ThumbnailSaysHowMuchRoomItNeeds) {
  const Bytes photograph = ReadFile(kPhotograph);
  const Answer first = Call("thumbnail", photograph, 100);
  ASSERT_EQ(first.outcome.kind, CallOutcome::Kind::kOutputTooSmall) << first.error;
  const Answer second = Call("thumbnail", photograph, first.outcome.output_needed);
  EXPECT_EQ(second.outcome.kind, CallOutcome::Kind::kOk);
  EXPECT_EQ(second.output.size(), first.outcome.output_needed);
}

Bytes MatmulInput(std::uint64_t m, std::uint64_t k, std::uint64_t n,
                  const std::vector<double>& numbers) {
  Bytes input(24 + 8 * numbers.size());
  const std::uint64_t size[3] = {m, k, n};
  std::memcpy(input.data(), size, 24);
  if (!numbers.empty()) std::memcpy(input.data() + 24, numbers.data(), 8 * numbers.size());
  return input;
}

TEST_F(ExampleFunctionsTest, MatmulAgreesWithTheDefinition) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> number(-1, 1);
  for (const auto& [m, k, n] : {std::array<std::uint64_t, 3>{1, 1, 1},
                                {2, 3, 4},
                                {7, 1, 5},
                                {1, 9, 1},
                                {64, 64, 64},
                                {33, 100, 17},
                                {3, 0, 2},
                                {0, 4, 2}}) {
    std::vector<double> numbers(m * k + k * n);
    for (double& value : numbers) value = number(random);
    const Answer answer = Call("matmul", MatmulInput(m, k, n, numbers));
    ASSERT_EQ(answer.outcome.kind, CallOutcome::Kind::kOk) << answer.error;
    ASSERT_EQ(answer.output.size(), 8 * m * n);
    for (std::uint64_t row = 0; row < m; ++row) {
      for (std::uint64_t column = 0; column < n; ++column) {
        double expected = 0, actual;
        for (std::uint64_t i = 0; i < k; ++i) {
          expected += numbers[row * k + i] * numbers[m * k + i * n + column];
        }
        std::memcpy(&actual, &answer.output[8 * (row * n + column)], 8);
        ASSERT_NEAR(actual, expected, 1e-12);
      }
    }
  }
}

TEST_F(ExampleFunctionsTest, MatmulRefusesInputsOfTheWrongSize) {
  for (Bytes input : {Bytes(), Bytes(23), MatmulInput(2, 2, 2, std::vector<double>(7)),
                      MatmulInput(2, 2, 2, std::vector<double>(9))}) {
    const Answer answer = Call("matmul", input);
    EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kFailed);
    EXPECT_NE(answer.error.find("bytes"), std::string::npos) << answer.error;
  }
}

TEST_F(ExampleFunctionsTest, MatmulRefusesSizesWhoseProductsOverflow) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [m, k, n] : {std::array<std::uint64_t, 3>{kMax, 1, 1},
                                {std::uint64_t{1} << 61, 1, 0},
                                {std::uint64_t{1} << 32, std::uint64_t{1} << 32, 1},
                                {kMax, kMax, kMax},
                                {0, std::uint64_t{1} << 62, 0},
                                {0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF}}) {
    const Answer answer = Call("matmul", MatmulInput(m, k, n, {}));
    EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kFailed);
    EXPECT_NE(answer.error, "");
  }
}

TEST_F(ExampleFunctionsTest, MatmulOfEmptySumsAsksForRoomInsteadOfWritingTooFar) {
  const Answer answer = Call("matmul", MatmulInput(1000, 0, 1000, {}), 1000);
  EXPECT_EQ(answer.outcome.kind, CallOutcome::Kind::kOutputTooSmall);
  EXPECT_EQ(answer.outcome.output_needed, 8'000'000u);
}

}  // namespace
}  // namespace invoker
