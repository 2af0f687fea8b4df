#include "src/log/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "src/log/log.h"
#include "src/log/log_throttle.h"

namespace invoker {
namespace {

constexpr absl::Duration kStretch = absl::Minutes(1);

// The messages of one library. Errors are not left out for others.
class LibraryLog {
 public:
  explicit LibraryLog(const std::string& library)
      : prefix_(absl::StrCat(library, ": ")),
        errors_(absl::StrCat("errors of ", library), 1, kStretch),
        others_(absl::StrCat("messages of ", library), 1, kStretch) {}

  void Log(LogLevel level, absl::string_view message) {
    LogThrottle& throttle = level == LogLevel::kError ? errors_ : others_;
    throttle.Log(level, absl::StrCat(prefix_, message));
  }

 private:
  const std::string prefix_;
  LogThrottle errors_;
  LogThrottle others_;
};

// Never destroyed: their threads may have a message while the process ends.
LibraryLog& Protobuf() {
  static auto* const log = new LibraryLog("protobuf");
  return *log;
}

LibraryLog& Grpc() {
  static auto* const log = new LibraryLog("gRPC");
  return *log;
}

LogLevel LevelOf(google::protobuf::LogLevel level) {
  if (level >= google::protobuf::LOGLEVEL_ERROR) return LogLevel::kError;
  return level == google::protobuf::LOGLEVEL_WARNING ? LogLevel::kWarning : LogLevel::kInfo;
}

LogLevel LevelOf(gpr_log_severity severity) {
  if (severity == GPR_LOG_SEVERITY_ERROR) return LogLevel::kError;
  return severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo : LogLevel::kDebug;
}

void OfProtobuf(google::protobuf::LogLevel level, const char*, int, const std::string& message) {
  if (level == google::protobuf::LOGLEVEL_FATAL) return LogError("protobuf: " + message);
  Protobuf().Log(LevelOf(level), message);
}

// gRPC has left out what is below GRPC_VERBOSITY.
void OfGrpc(gpr_log_func_args* message) {
  Grpc().Log(LevelOf(message->severity), message->message);
}

}  // namespace

void RouteLibraryLogs() {
  google::protobuf::SetLogHandler(OfProtobuf);
  gpr_set_log_function(OfGrpc);
}

}  // namespace invoker
