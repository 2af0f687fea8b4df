#include "src/bootstrap/messages/worker_status.h"

namespace invoker::bootstrap {

void FunctionCounts::Add(const FunctionCounts& other) {
  calls += other.calls;
  failures += other.failures;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  time.Add(other.time);
}

void FunctionTable::Add(absl::string_view function, absl::string_view provider,
                        const FunctionCounts& counts) {
  const Key key(function, provider);
  const auto found = rows_.find(key);
  if (found != rows_.end()) return found->second.Add(counts);
  if (rows_.size() < kMostFunctions) {
    rows_.emplace(key, counts);
  } else {
    rows_[Key("(others)", provider)].Add(counts);
  }
}

void FunctionTable::Add(const FunctionTable& other) {
  for (const auto& [key, counts] : other.rows_) Add(key.first, key.second, counts);
}

}  // namespace invoker::bootstrap
