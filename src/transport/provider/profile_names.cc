// What the profile's choices are called in front of people.

#include "src/transport/provider/provider_profile.h"

namespace invoker::transport {

absl::string_view WaitMethodName(WaitMethod wait) {
  switch (wait) {
    case WaitMethod::kFd:
      return "fd";
    case WaitMethod::kSread:
      return "sread";
    case WaitMethod::kBackoff:
      return "back-off";
  }
  return "";
}

absl::string_view EvidenceName(Evidence evidence) {
  switch (evidence) {
    case Evidence::kHost:
      return "host";
    case Evidence::kSoftRoce:
      return "soft-roce";
    case Evidence::kEmulatedDevice:
      return "emulated-device";
    case Evidence::kEmulation:
      return "emulation";
    case Evidence::kNone:
      return "none";
  }
  return "";
}

}  // namespace invoker::transport
