// Where Invoker's messages for people go, in this process.
//
//   invoker::SetLogSink([](const invoker::LogRecord& record) {
//     std::clog << "my program: " << record.message << std::endl;
//   });
//
// Without a sink, messages are lines on standard error: "invoker: warning: ...". With one, gRPC's
// and protobuf's messages go to it, too. No message holds a token or a key of memory.

#ifndef INVOKER_SRC_INVOKE_LOG_H_
#define INVOKER_SRC_INVOKE_LOG_H_

#include <cstdint>
#include <functional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "invoker/export.h"

namespace invoker {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogRecord {
  LogLevel level = LogLevel::kInfo;
  absl::Time time;
  uint64_t thread = 0;        // Linux' number of it
  absl::string_view message;  // without control characters but for line ends and tabs
  // Numbers of the lease and the session that it is about; 0: of none.
  uint64_t lease = 0;
  uint64_t session = 0;
};

// Called on the thread that has the message, one call at a time. It must not call Invoker.
using LogSink = std::function<void(const LogRecord& record)>;

// Empty: standard error again. Any thread; returns when the sink before is not called any more.
INVOKER_EXPORT void SetLogSink(LogSink sink);

// Messages below this level are left out. At first kInfo.
INVOKER_EXPORT void SetLogLevel(LogLevel least);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_LOG_H_
