#include "bench/harness/report.h"

#include "absl/strings/str_cat.h"

namespace invoker::bench {

Row& Row::Label(absl::string_view name, absl::string_view value) {
  labels.emplace_back(name, value);
  return *this;
}

Row& Row::Label(absl::string_view name, int64_t value) {
  return Label(name, absl::string_view(absl::StrCat(value)));
}

Row& Row::Value(absl::string_view name, double value) {
  values.emplace_back(name, value);
  return *this;
}

Row& Row::Times(const Distribution& distribution) {
  return Value("samples", static_cast<double>(distribution.samples))
      .Value("min_us", distribution.min)
      .Value("p50_us", distribution.p50)
      .Value("p90_us", distribution.p90)
      .Value("p99_us", distribution.p99)
      .Value("p999_us", distribution.p999)
      .Value("max_us", distribution.max)
      .Value("round_low_us", distribution.lowest_round)
      .Value("round_high_us", distribution.highest_round);
}

Report::Report(std::string program, std::string question)
    : program_(std::move(program)), question_(std::move(question)) {}

void Report::Condition(absl::string_view name, absl::string_view value) {
  conditions_.emplace_back(name, value);
}

Table& Report::AddTable(absl::string_view name, absl::string_view title) {
  tables_.push_back(
      std::make_unique<Table>(Table{std::string(name), std::string(title), std::vector<Row>()}));
  return *tables_.back();
}

void Report::Note(absl::string_view text) { notes_.emplace_back(text); }

}  // namespace invoker::bench
