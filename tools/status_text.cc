#include "tools/status_text.h"

#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/printable.h"

namespace invoker::tools {
namespace {

// Divides by `step` as long as the value has more than four digits.
template <size_t kCount>
std::string WithUnit(double value, double step, double most, const char* const (&units)[kCount],
                     const char* between) {
  size_t unit = 0;
  while (value >= most && unit + 1 < kCount) {
    value /= step;
    ++unit;
  }
  return absl::StrCat(
      value >= 999.5 ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.3g", value), between,
      units[unit]);
}

}  // namespace

std::string ShowCount(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  return WithUnit(count, 1000, 9999.5, kUnits, "");
}

std::string ShowBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return WithUnit(static_cast<double>(bytes), 1024, 1024, kUnits, " ");
}

std::string ShowTime(double seconds) {
  if (seconds <= 0) return "-";
  static constexpr const char* kUnits[] = {"us", "ms", "s"};
  return WithUnit(seconds * 1e6, 1000, 999.5, kUnits, " ");
}

std::string ShowName(absl::string_view name, size_t width) {
  std::string escaped = WithoutControls(absl::Utf8SafeCEscape(name));
  if (escaped.size() <= width) return escaped;
  size_t end = width - 3;
  // A character of several bytes is not cut.
  while (end > 0 && (escaped[end] & 0xc0) == 0x80) --end;
  return absl::StrCat(escaped.substr(0, end), "...");
}

}  // namespace invoker::tools
