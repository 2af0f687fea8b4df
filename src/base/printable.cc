#include "src/base/printable.h"

#include <cstddef>

#include "absl/strings/ascii.h"

namespace invoker {

std::string WithoutControls(absl::string_view text) {
  std::string printable(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (absl::ascii_iscntrl(byte) && byte != '\n' && byte != '\t') printable[i] = '?';
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) printable[i] = printable[i + 1] = '?';
  }
  return printable;
}

}  // namespace invoker
