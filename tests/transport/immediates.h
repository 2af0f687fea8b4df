// Where a test finds write-with-immediate, and what a fabric has in its place. The libfabric that
// runs decides (ProfileRow::immediates_kill_since).

#ifndef INVOKER_TESTS_TRANSPORT_IMMEDIATES_H_
#define INVOKER_TESTS_TRANSPORT_IMMEDIATES_H_

#include <string>

#include "src/transport/provider/provider_profile.h"

namespace invoker::transport {

// The provider, or native tcp, which stands for it where it has no write-with-immediate.
inline const char* WithImmediates(const char* provider) {
  return ImmediatesKill(FindRow(provider)) ? "tcp" : provider;
}

// The strongest notification that sessions on it have.
inline Notification StrongestOn(const std::string& provider) {
  const ProfileRow& row = FindRow(provider);
  return ImmediatesKill(row) ? Notification::kSendAfterWrite : row.notification;
}

}  // namespace invoker::transport

#endif  // INVOKER_TESTS_TRANSPORT_IMMEDIATES_H_
