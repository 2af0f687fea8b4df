// Messages for people. One process has one log (invoker/log.h).
//
// Any thread. A message that is below the level costs a comparison.

#ifndef INVOKER_SRC_LOG_LOG_H_
#define INVOKER_SRC_LOG_LOG_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "invoker/log.h"

namespace invoker {

// The lease and the session that a message is about; 0: none.
struct LogIds {
  uint64_t lease = 0;
  uint64_t session = 0;
};

// Whether messages of this level are not below the log's.
bool IsLogged(LogLevel level);

void Log(LogLevel level, absl::string_view message, LogIds ids = {});

inline void LogDebug(absl::string_view message, LogIds ids = {}) {
  Log(LogLevel::kDebug, message, ids);
}
inline void LogInfo(absl::string_view message, LogIds ids = {}) {
  Log(LogLevel::kInfo, message, ids);
}
inline void LogWarning(absl::string_view message, LogIds ids = {}) {
  Log(LogLevel::kWarning, message, ids);
}
inline void LogError(absl::string_view message, LogIds ids = {}) {
  Log(LogLevel::kError, message, ids);
}

// "debug", "info", "warning", "error".
absl::string_view LogLevelName(LogLevel level);

enum class LogFormat {
  kPlain,  // "invoker: error: MESSAGE": for somebody who has typed a command
  kText,   // the same after the time and the thread: for a server's log
  kJson,   // an object a line: for programs
};

// What lines on standard error look like, and the program's name in them. Before other threads run.
// gRPC's and protobuf's messages are in the log from then on.
void SetLogFormat(LogFormat format, const std::string& program);

}  // namespace invoker

#endif  // INVOKER_SRC_LOG_LOG_H_
