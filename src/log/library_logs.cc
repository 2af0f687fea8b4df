#include "src/log/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "src/log/log.h"
#include "src/log/log_throttle.h"

namespace invoker {
namespace {

// Never destroyed: their threads may have a message while the process ends.
LogThrottle& Protobuf() {
  static auto* const log = new LogThrottle("messages of protobuf", 1, absl::Minutes(1));
  return *log;
}

LogThrottle& Grpc() {
  static auto* const log = new LogThrottle("messages of gRPC", 1, absl::Minutes(1));
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
  const std::string text = absl::StrCat("protobuf: ", message);
  if (level == google::protobuf::LOGLEVEL_FATAL) return LogError(text);
  Protobuf().Log(LevelOf(level), text);
}

// gRPC has left out what is below GRPC_VERBOSITY.
void OfGrpc(gpr_log_func_args* message) {
  Grpc().Log(LevelOf(message->severity), absl::StrCat("gRPC: ", message->message));
}

}  // namespace

void RouteLibraryLogs() {
  google::protobuf::SetLogHandler(OfProtobuf);
  gpr_set_log_function(OfGrpc);
}

}  // namespace invoker
