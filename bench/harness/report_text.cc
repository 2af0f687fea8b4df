// Report::Print: aligned columns, text to the left and numbers to the right.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/harness/report.h"

namespace invoker::bench {
namespace {

constexpr char kNothing[] = "-";

// About four digits that count; whole numbers whole.
std::string FormatNumber(double value) {
  if (!std::isfinite(value)) return kNothing;
  const double size = std::fabs(value);
  if (size >= 10000 || value == std::floor(value)) return absl::StrFormat("%.0f", value);
  if (size >= 1000) return absl::StrFormat("%.1f", value);
  if (size >= 10) return absl::StrFormat("%.2f", value);
  if (size >= 0.1) return absl::StrFormat("%.3f", value);
  return absl::StrFormat("%.3g", value);
}

struct Column {
  std::string name;
  bool is_label = false;
};

// In the order in which the rows first name them, labels before values.
std::vector<Column> ColumnsOf(const Table& table) {
  std::vector<Column> columns;
  const auto add = [&columns](const std::string& name, bool is_label) {
    const bool known = std::any_of(columns.begin(), columns.end(), [&](const Column& column) {
      return column.name == name && column.is_label == is_label;
    });
    if (!known) columns.push_back({name, is_label});
  };
  for (const Row& row : table.rows) {
    for (const auto& [name, value] : row.labels) add(name, true);
  }
  for (const Row& row : table.rows) {
    for (const auto& [name, value] : row.values) add(name, false);
  }
  return columns;
}

std::string CellOf(const Row& row, const Column& column) {
  if (column.is_label) {
    for (const auto& [name, value] : row.labels) {
      if (name == column.name) return value;
    }
    return kNothing;
  }
  for (const auto& [name, value] : row.values) {
    if (name == column.name) return FormatNumber(value);
  }
  return kNothing;
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.-+e") == std::string::npos;
}

void PrintTable(const Table& table) {
  const std::vector<Column> columns = ColumnsOf(table);
  absl::PrintF("%s\n", table.title);
  std::vector<std::string> lines(table.rows.size() + 1);
  for (size_t c = 0; c < columns.size(); ++c) {
    std::vector<std::string> cells = {columns[c].name};
    bool numbers = true;
    for (const Row& row : table.rows) {
      cells.push_back(CellOf(row, columns[c]));
      numbers = numbers && IsNumber(cells.back());
    }
    size_t width = 0;
    for (const std::string& cell : cells) width = std::max(width, cell.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(width - cells[i].size(), ' ');
      absl::StrAppend(&lines[i], "  ", numbers ? padding : "", cells[i], numbers ? "" : padding);
    }
  }
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    absl::PrintF("%s\n", line);
  }
}

}  // namespace

void Report::Print() const {
  absl::PrintF("%s: %s\n\nConditions\n", program_, question_);
  size_t width = 0;
  for (const auto& [name, value] : conditions_) width = std::max(width, name.size());
  for (const auto& [name, value] : conditions_) absl::PrintF("  %-*s  %s\n", width, name, value);
  for (const std::unique_ptr<Table>& table : tables_) {
    absl::PrintF("\n");
    PrintTable(*table);
  }
  if (!notes_.empty()) absl::PrintF("\n");
  for (const std::string& note : notes_) absl::PrintF("%s\n", note);
  fflush(stdout);
}

}  // namespace invoker::bench
