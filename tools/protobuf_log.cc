#include "tools/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>

#include <atomic>

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "tools/options.h"

namespace invoker::tools {
namespace {

constexpr absl::Duration kInterval = absl::Minutes(1);

std::atomic<const char*> program_name{nullptr};

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);

// Never destroyed: threads of gRPC may parse while the process ends.
SparseLog& Sparse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  static auto* const log = new SparseLog(kInterval);
  return *log;
}

void Handle(google::protobuf::LogLevel level, const char*, int, const std::string& message) {
  const std::string text = absl::StrCat("protobuf: ", message);
  if (level == google::protobuf::LOGLEVEL_FATAL) return Log(program_name.load(), text);
  std::optional<std::string> line;
  {
    absl::MutexLock lock(&mutex);
    line = Sparse().Admit(text, absl::Now());
  }
  if (line.has_value()) Log(program_name.load(), *line);
}

}  // namespace

std::optional<std::string> SparseLog::Admit(absl::string_view message, absl::Time now) {
  if (now < next_) {
    ++left_out_;
    return std::nullopt;
  }
  next_ = now + interval_;
  std::string text(message);
  if (left_out_ > 0) absl::StrAppend(&text, " (and ", left_out_, " more before it)");
  left_out_ = 0;
  return text;
}

void RouteProtobufLog(const char* program) {
  program_name = program;
  google::protobuf::SetLogHandler(Handle);
}

}  // namespace invoker::tools
