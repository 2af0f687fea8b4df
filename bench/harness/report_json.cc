// Report::WriteJson.

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/harness/report.h"
#include "nlohmann/json.hpp"

namespace invoker::bench {
namespace {

using Json = nlohmann::ordered_json;

Json LabelValue(const std::string& text) {
  int64_t number;
  if (absl::SimpleAtoi(text, &number) && absl::StrCat(number) == text) return number;
  return text;
}

Json RowOf(const Row& row) {
  Json result = Json::object();
  for (const auto& [name, value] : row.labels) result[name] = LabelValue(value);
  // One that is not finite becomes null: JSON has no other word for it.
  for (const auto& [name, value] : row.values) result[name] = value;
  return result;
}

}  // namespace

absl::Status Report::WriteJson(const std::string& path) const {
  Json report;
  report["benchmark"] = program_;
  report["question"] = question_;
  report["conditions"] = Json::object();
  for (const auto& [name, value] : conditions_) report["conditions"][name] = value;
  report["tables"] = Json::object();
  report["titles"] = Json::object();
  for (const std::unique_ptr<Table>& table : tables_) {
    Json rows = Json::array();
    for (const Row& row : table->rows) rows.push_back(RowOf(row));
    report["tables"][table->name] = std::move(rows);
    report["titles"][table->name] = table->title;
  }
  report["notes"] = notes_;
  // A text with bytes that are not UTF-8 must not lose the whole run.
  const std::string text = report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  FILE* file = fopen(path.c_str(), "w");
  bool written = file != nullptr && fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = fclose(file) == 0 && written;
  if (!written) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace invoker::bench
