// How much of a message on the data path is under a keyed tag.

#ifndef INVOKER_SRC_INVOKE_DATA_AUTH_H_
#define INVOKER_SRC_INVOKE_DATA_AUTH_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace invoker {

// Each is stronger than the one before. The numbers are the bootstrap's.
enum class DataAuth : uint8_t {
  kOff = 0,     // a peer that knows a window's key and what comes next can forge a message
  kHeader = 1,  // it cannot forge a call, but can change a payload
  kFull = 2,    // it can do neither
};

// "off", "header", "full".
constexpr absl::string_view DataAuthName(DataAuth auth) {
  switch (auth) {
    case DataAuth::kOff:
      return "off";
    case DataAuth::kHeader:
      return "header";
    case DataAuth::kFull:
      return "full";
  }
  return "undefined";
}

constexpr std::optional<DataAuth> ParseDataAuth(absl::string_view name) {
  for (const DataAuth auth : {DataAuth::kOff, DataAuth::kHeader, DataAuth::kFull}) {
    if (name == DataAuthName(auth)) return auth;
  }
  return std::nullopt;
}

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_DATA_AUTH_H_
