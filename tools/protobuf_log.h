// What protobuf has to say, which would otherwise go to standard error as it is: a word about each
// string that is not UTF-8, for one, so anyone who reaches the bootstrap could fill a log.

#ifndef INVOKER_TOOLS_PROTOBUF_LOG_H_
#define INVOKER_TOOLS_PROTOBUF_LOG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace invoker::tools {

// One message an interval, and how many have been left out since the one before it. One thread at a
// time.
class SparseLog {
 public:
  explicit SparseLog(absl::Duration interval) : interval_(interval) {}

  // What is to be logged at `now` of a message that has come; nothing if it is left out.
  std::optional<std::string> Admit(absl::string_view message, absl::Time now);

 private:
  const absl::Duration interval_;
  absl::Time next_ = absl::InfinitePast();
  uint64_t left_out_ = 0;
};

// From now on protobuf's messages are lines of `program`'s log, one a minute at most; what is fatal
// is always told. Call before other threads use protobuf. `program` must live as long.
void RouteProtobufLog(const char* program);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_PROTOBUF_LOG_H_
