// What the server has billed each lease of a soak's clients, as its usage file says.
//
// One thread, beside the server that writes.

#ifndef INVOKER_TESTS_SOAK_BILLS_H_
#define INVOKER_TESTS_SOAK_BILLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace invoker::soak {

// Whose bill a client's lease is: each client's own, so that a line of the file is one lease's.
std::string TenantOf(uint64_t client);

class Bills {
 public:
  explicit Bills(std::string usage_file) : path_(std::move(usage_file)) {}

  // Takes what the server has written since the last time.
  void Read();

  // Calls that the client's leases have been billed; nothing if none of them has ended.
  absl::optional<uint64_t> CallsOf(uint64_t client) const;

 private:
  void Take(absl::string_view line);

  const std::string path_;
  size_t read_ = 0;  // bytes of the file, up to the last whole line
  std::map<std::string, uint64_t> calls_;
};

}  // namespace invoker::soak

#endif  // INVOKER_TESTS_SOAK_BILLS_H_
