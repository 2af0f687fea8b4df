// thumbnail: a photograph made small.
//
// Input: a JPEG file, grayscale or colour, of at most 2^26 pixels. Output: a JPEG file whose longer
// side has 128 pixels, the other one in proportion (at least 1); a smaller picture keeps its size.
// The same input gives the same output. Metadata is dropped, EXIF's orientation is not applied, and
// CMYK is refused: what its numbers mean as colours depends on a profile.

#include <turbojpeg.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "invoker/function.h"

namespace {

constexpr int kLongerSide = 128;
constexpr int kQuality = 85;

// A few kilobytes can claim 65535 x 65535 pixels; a progressive file needs up to 6 bytes of memory
// for each. This allows the largest common cameras.
constexpr std::int64_t kMaxPixels = std::int64_t{1} << 26;

struct TurboDeleter {
  void operator()(void* handle) const { tjDestroy(handle); }
  void operator()(unsigned char* buffer) const { tjFree(buffer); }
};
using TurboHandle = std::unique_ptr<void, TurboDeleter>;
using TurboBuffer = std::unique_ptr<unsigned char, TurboDeleter>;

struct Picture {
  int width = 0;
  int height = 0;
  int channels = 0;  // 1 gray, 3 RGB
  std::vector<std::uint8_t> pixels;

  int format() const { return channels == 1 ? TJPF_GRAY : TJPF_RGB; }
};

struct Size {
  int width;
  int height;
};

Size ThumbnailSize(int width, int height) {
  const std::int64_t longer = std::max(width, height);
  if (longer <= kLongerSide) return {width, height};
  const auto scale = [longer](std::int64_t side) {
    return static_cast<int>(
        std::max<std::int64_t>(1, (2 * side * kLongerSide + longer) / (2 * longer)));
  };
  return {scale(width), scale(height)};
}

// The decoder can leave out high frequencies and so decode at n/8 of the size, in a fraction of the
// time. Picks the smallest size that the thumbnail still fits into.
Size DecodedSize(int width, int height, Size thumbnail) {
  Size best = {width, height};
  int count = 0;
  const tjscalingfactor* factors = tjGetScalingFactors(&count);
  for (int i = 0; i < count; ++i) {
    const Size size = {TJSCALED(width, factors[i]), TJSCALED(height, factors[i])};
    if (size.width >= thumbnail.width && size.height >= thumbnail.height &&
        size.width < best.width) {
      best = size;
    }
  }
  return best;
}

// Each pixel of the result is the mean of the area that it covers, in integers, so that every
// machine gets the same. In units in which a source pixel is `to` wide, a result's pixel is `from`
// wide.
Picture Shrink(const Picture& source, Size size) {
  Picture result;
  result.width = size.width;
  result.height = size.height;
  result.channels = source.channels;
  result.pixels.resize(static_cast<std::size_t>(size.width) * size.height * source.channels);
  const auto overlap = [](std::int64_t i, std::int64_t j, std::int64_t from, std::int64_t to) {
    return std::min((i + 1) * to, (j + 1) * from) - std::max(i * to, j * from);
  };
  const std::int64_t from_x = source.width, to_x = size.width;
  const std::int64_t from_y = source.height, to_y = size.height;
  const std::int64_t area = from_x * from_y;
  std::uint8_t* out = result.pixels.data();
  for (std::int64_t y = 0; y < to_y; ++y) {
    for (std::int64_t x = 0; x < to_x; ++x) {
      std::int64_t sum[3] = {};
      for (std::int64_t v = y * from_y / to_y; v * to_y < (y + 1) * from_y; ++v) {
        const std::int64_t weight_y = overlap(v, y, from_y, to_y);
        for (std::int64_t u = x * from_x / to_x; u * to_x < (x + 1) * from_x; ++u) {
          const std::int64_t weight = weight_y * overlap(u, x, from_x, to_x);
          const std::uint8_t* in = &source.pixels[(v * from_x + u) * source.channels];
          for (int c = 0; c < source.channels; ++c) sum[c] += weight * in[c];
        }
      }
      for (int c = 0; c < source.channels; ++c) {
        *out++ = static_cast<std::uint8_t>((2 * sum[c] + area) / (2 * area));
      }
    }
  }
  return result;
}

invoker::Result TurboError(const char* what, void* handle) {
  return invoker::Result::Error(std::string("thumbnail: ") + what + ": " + tjGetErrorStr2(handle));
}

}  // namespace

INVOKER_FUNCTION(thumbnail, input, output) {
  const TurboHandle decoder(tjInitDecompress());
  if (decoder == nullptr) return TurboError("cannot start the JPEG decoder", nullptr);
  if (input.empty())
    return invoker::Result::Error("thumbnail: the input is empty, not a JPEG file");

  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), input.data(), input.size(), &width, &height, &subsampling,
                          &colours) != 0) {
    return TurboError("the input is not a JPEG file that can be read", decoder.get());
  }
  if (std::int64_t{width} * height > kMaxPixels) {
    return invoker::Result::Error("thumbnail: " + std::to_string(width) + "x" +
                                  std::to_string(height) + " are more than " +
                                  std::to_string(kMaxPixels) + " pixels");
  }
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
    return invoker::Result::Error("thumbnail: CMYK is not supported; convert the picture to RGB");
  }

  const Size size = ThumbnailSize(width, height);
  const Size decoded = DecodedSize(width, height, size);
  Picture picture;
  picture.width = decoded.width;
  picture.height = decoded.height;
  picture.channels = colours == TJCS_GRAY ? 1 : 3;
  picture.pixels.resize(static_cast<std::size_t>(decoded.width) * decoded.height *
                        picture.channels);
  // A cut or damaged file is an error, not half a picture. Thousands of empty progressive scans are
  // an attack on the decoder's time.
  if (tjDecompress2(decoder.get(), input.data(), input.size(), picture.pixels.data(), decoded.width,
                    0, decoded.height, picture.format(),
                    TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0) {
    return TurboError("the JPEG file is damaged", decoder.get());
  }
  if (decoded.width != size.width || decoded.height != size.height) {
    picture = Shrink(picture, size);
  }

  const TurboHandle encoder(tjInitCompress());
  if (encoder == nullptr) return TurboError("cannot start the JPEG encoder", nullptr);
  unsigned char* jpeg = nullptr;
  unsigned long jpeg_size = 0;
  const int encoded =
      tjCompress2(encoder.get(), picture.pixels.data(), picture.width, 0, picture.height,
                  picture.format(), &jpeg, &jpeg_size,
                  picture.channels == 1 ? TJSAMP_GRAY : TJSAMP_420, kQuality, TJFLAG_ACCURATEDCT);
  const TurboBuffer owner(jpeg);
  if (encoded != 0) return TurboError("cannot encode", encoder.get());
  output.Append(jpeg, jpeg_size);
  return invoker::Result::Ok();
}
