// The release. Both sides of a session need equal bootstrap::kProtocolVersion, not equal releases.

#ifndef INVOKER_SRC_INVOKE_WIRE_VERSION_H_
#define INVOKER_SRC_INVOKE_WIRE_VERSION_H_

namespace invoker {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WIRE_VERSION_H_
