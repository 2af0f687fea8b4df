// The keys of a session's tags (invoker/data_auth.h). Secrets of the session: never log them, and
// wipe them when they are not needed any more.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_DATA_KEYS_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_DATA_KEYS_H_

#include <array>
#include <cstddef>

namespace invoker {

inline constexpr size_t kDataKeyBytes = 16;
using DataKey = std::array<std::byte, kDataKeyBytes>;

// One key for each direction, so that no message can be sent back as if it were an answer.
struct DataKeys {
  DataKey request = {};
  DataKey response = {};
};

}  // namespace invoker

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_DATA_KEYS_H_
