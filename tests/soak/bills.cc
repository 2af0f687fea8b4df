#include "tests/soak/bills.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace invoker::soak {

std::string TenantOf(uint64_t client) { return absl::StrCat("client-", client); }

void Bills::Read() {
  std::ifstream file(path_);
  file.seekg(static_cast<std::streamoff>(read_));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  size_t line = 0;
  // The last line may be written just now.
  for (size_t end; (end = text.find('\n', line)) != std::string::npos; line = end + 1) {
    Take(absl::string_view(text).substr(line, end - line));
  }
  read_ += line;
}

void Bills::Take(absl::string_view line) {
  const nlohmann::json bill = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  if (!bill.is_object()) return;
  const auto tenant = bill.find("tenant");
  const auto calls = bill.find("calls");
  if (tenant == bill.end() || calls == bill.end()) return;
  calls_[tenant->get<std::string>()] += calls->get<uint64_t>();
}

absl::optional<uint64_t> Bills::CallsOf(uint64_t client) const {
  const auto found = calls_.find(TenantOf(client));
  if (found == calls_.end()) return absl::nullopt;
  return found->second;
}

}  // namespace invoker::soak
