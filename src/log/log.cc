#include "src/log/log.h"

#include <spdlog/formatter.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "src/base/printable.h"
#include "src/log/library_logs.h"

namespace invoker {
namespace {

// What spdlog's messages have no room for. Sinks run on the thread that logs.
thread_local LogIds current_ids;

absl::string_view Text(spdlog::string_view_t text) { return {text.data(), text.size()}; }

// "", or "warning: ".
std::string LevelWord(spdlog::level::level_enum level, bool always) {
  if (level == spdlog::level::info && !always) return "";
  return absl::StrCat(Text(spdlog::level::to_string_view(level)), ": ");
}

void Append(absl::string_view text, spdlog::memory_buf_t* line) {
  line->append(text.data(), text.data() + text.size());
}

// `time` is the pattern of what stands before the program's name.
class LineFormatter final : public spdlog::formatter {
 public:
  LineFormatter(std::string program, std::string time)
      : prefix_(time, spdlog::pattern_time_type::local, ""),
        program_(std::move(program)),
        time_(std::move(time)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    if (!time_.empty()) prefix_.format(message, line);
    const bool dated = !time_.empty();
    Append(absl::StrCat(program_, ": ", LevelWord(message.level, dated)), &line);
    // A line that begins with a time is a message of its own.
    const std::string text(Text(message.payload));
    Append(dated ? absl::StrReplaceAll(text, {{"\n", "\\n"}}) : text, &line);
    if (current_ids.lease != 0) Append(absl::StrCat(" lease=", current_ids.lease), &line);
    if (current_ids.session != 0) Append(absl::StrCat(" session=", current_ids.session), &line);
    line.push_back('\n');
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(program_, time_);
  }

 private:
  spdlog::pattern_formatter prefix_;
  const std::string program_;
  const std::string time_;
};

class JsonFormatter final : public spdlog::formatter {
 public:
  explicit JsonFormatter(std::string program) : program_(std::move(program)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    nlohmann::ordered_json entry;
    entry["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E6S%Ez", absl::FromChrono(message.time),
                                     absl::LocalTimeZone());
    entry["level"] = std::string(Text(spdlog::level::to_string_view(message.level)));
    entry["program"] = program_;
    entry["thread"] = message.thread_id;
    if (current_ids.lease != 0) entry["lease"] = current_ids.lease;
    if (current_ids.session != 0) entry["session"] = current_ids.session;
    entry["message"] = std::string(Text(message.payload));
    Append(entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), &line);
    line.push_back('\n');
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>(program_);
  }

 private:
  const std::string program_;
};

std::unique_ptr<spdlog::formatter> FormatterOf(LogFormat format, const std::string& program) {
  if (format == LogFormat::kJson) return std::make_unique<JsonFormatter>(program);
  return std::make_unique<LineFormatter>(
      program, format == LogFormat::kPlain ? "" : "%Y-%m-%dT%H:%M:%S.%e%z [%t] ");
}

LogLevel LevelOf(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::info:
      return LogLevel::kInfo;
    case spdlog::level::warn:
      return LogLevel::kWarning;
    default:
      return LogLevel::kError;
  }
}

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

// The program's own sink, or standard error.
class Output final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void Set(LogSink sink) {
    const std::lock_guard<std::mutex> lock(mutex_);
    sink_ = std::move(sink);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!sink_) return standard_error_.log(message);
    sink_({LevelOf(message.level), absl::FromChrono(message.time), message.thread_id,
           Text(message.payload), current_ids.lease, current_ids.session});
  }
  void flush_() override {}
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    standard_error_.set_formatter(std::move(formatter));
  }

  LogSink sink_;
  spdlog::sinks::stderr_sink_st standard_error_;
};

struct ProcessLog {
  ProcessLog() { logger.set_formatter(FormatterOf(LogFormat::kPlain, "invoker")); }

  const std::shared_ptr<Output> output = std::make_shared<Output>();
  spdlog::logger logger{"", output};
};

// Never destroyed: threads may log while the process ends.
ProcessLog& TheLog() {
  static auto* const log = new ProcessLog;
  return *log;
}

}  // namespace

bool IsLogged(LogLevel level) { return TheLog().logger.should_log(LevelOf(level)); }

void Log(LogLevel level, absl::string_view message, LogIds ids) {
  if (!IsLogged(level)) return;
  // What a peer has said may be in it.
  current_ids = ids;
  TheLog().logger.log(LevelOf(level), WithoutControls(message));
  current_ids = {};
}

absl::string_view LogLevelName(LogLevel level) {
  return Text(spdlog::level::to_string_view(LevelOf(level)));
}

void SetLogFormat(LogFormat format, const std::string& program) {
  TheLog().logger.set_formatter(FormatterOf(format, program));
  RouteLibraryLogs();
}

void SetLogSink(LogSink sink) {
  if (sink) RouteLibraryLogs();
  TheLog().output->Set(std::move(sink));
}

void SetLogLevel(LogLevel least) { TheLog().logger.set_level(LevelOf(least)); }

}  // namespace invoker
