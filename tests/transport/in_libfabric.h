// The fabrics of the libfabric that runs, whatever the machine: "net" is in 1.16 and 1.17 only,
// and became "tcp" in 1.18.

#ifndef INVOKER_TESTS_TRANSPORT_IN_LIBFABRIC_H_
#define INVOKER_TESTS_TRANSPORT_IN_LIBFABRIC_H_

#include <string>
#include <vector>

#include "src/transport/provider/provider_profile.h"

namespace invoker::transport {

inline bool InLibfabric(const std::string& provider) {
  return WhyNotInLibfabric(FindRow(provider)).empty();
}

// The providers of `all` that it has, in the same order.
template <typename Text = const char*>
std::vector<Text> ThoseInLibfabric(const std::vector<Text>& all) {
  std::vector<Text> there;
  for (const Text& provider : all) {
    if (InLibfabric(provider)) there.push_back(provider);
  }
  return there;
}

}  // namespace invoker::transport

#endif  // INVOKER_TESTS_TRANSPORT_IN_LIBFABRIC_H_
