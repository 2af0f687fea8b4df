// rFaaS's example of a function: a photograph made into a thumbnail of 200 x 200 pixels.
//
// Input: a JPEG file. Output: a JPEG file, or nothing if the input is none that can be read; rFaaS
// functions have no other way to say so. This file includes nothing of Invoker: it is what one
// gives to rFaaS, and runs here as it is (docs/guide/rfaas.md). The caller must make room for the
// answer, whose size the function does not know before: kMaxAnswer bytes always do.

#include <turbojpeg.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr int kSide = 200;
constexpr int kQuality = 90;
constexpr unsigned long kMaxAnswer = 64 << 10;

struct TurboDeleter {
  void operator()(void* handle) const { tjDestroy(handle); }
  void operator()(unsigned char* buffer) const { tjFree(buffer); }
};
using TurboHandle = std::unique_ptr<void, TurboDeleter>;
using TurboBuffer = std::unique_ptr<unsigned char, TurboDeleter>;

// Linear in both directions, between the four nearest pixels.
std::vector<std::uint8_t> Resize(const std::vector<std::uint8_t>& source, int width, int height) {
  std::vector<std::uint8_t> result(kSide * kSide * 3);
  const auto place = [](int at, int from) {
    return std::clamp((at + 0.5) * from / kSide - 0.5, 0.0, from - 1.0);
  };
  std::uint8_t* out = result.data();
  for (int row = 0; row < kSide; ++row) {
    const double y = place(row, height);
    const int y0 = static_cast<int>(y), y1 = std::min(y0 + 1, height - 1);
    for (int column = 0; column < kSide; ++column) {
      const double x = place(column, width);
      const int x0 = static_cast<int>(x), x1 = std::min(x0 + 1, width - 1);
      for (int c = 0; c < 3; ++c) {
        const auto at = [&](int u, int v) -> double {
          return source[(std::size_t{3} * v * width) + 3 * u + c];
        };
        const double upper = at(x0, y0) + (x - x0) * (at(x1, y0) - at(x0, y0));
        const double lower = at(x0, y1) + (x - x0) * (at(x1, y1) - at(x0, y1));
        *out++ = static_cast<std::uint8_t>(upper + (y - y0) * (lower - upper) + 0.5);
      }
    }
  }
  return result;
}

}  // namespace

extern "C" std::uint32_t thumbnailer(void* args, std::uint32_t size, void* res) {
  const auto* input = static_cast<const unsigned char*>(args);
  const TurboHandle decoder(tjInitDecompress());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (decoder == nullptr || tjDecompressHeader3(decoder.get(), input, size, &width, &height,
                                                &subsampling, &colours) != 0) {
    return 0;
  }
  std::vector<std::uint8_t> pixels(std::size_t{3} * width * height);
  if (tjDecompress2(decoder.get(), input, size, pixels.data(), width, 0, height, TJPF_RGB,
                    TJFLAG_STOPONWARNING) != 0) {
    return 0;
  }
  const std::vector<std::uint8_t> small = Resize(pixels, width, height);

  const TurboHandle encoder(tjInitCompress());
  unsigned char* jpeg = nullptr;
  unsigned long jpeg_size = 0;
  if (encoder == nullptr || tjCompress2(encoder.get(), small.data(), kSide, 0, kSide, TJPF_RGB,
                                        &jpeg, &jpeg_size, TJSAMP_420, kQuality, 0) != 0) {
    return 0;
  }
  const TurboBuffer owner(jpeg);
  if (jpeg_size > kMaxAnswer) return 0;
  std::memcpy(res, jpeg, jpeg_size);
  return static_cast<std::uint32_t>(jpeg_size);
}
