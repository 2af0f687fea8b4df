// A benchmark's result: the conditions it ran under and a table, which go to standard output as
// text, to a file as JSON and to a picture. Every program makes the same.

#ifndef INVOKER_BENCH_HARNESS_REPORT_H_
#define INVOKER_BENCH_HARNESS_REPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bench/harness/distribution.h"

namespace invoker::bench {

// Ordered; the names are JSON keys and table headings: lower case, words joined by "_", with the
// unit last where there is one ("p50_us", "calls_per_s").
struct Row {
  std::vector<std::pair<std::string, std::string>> labels;  // what was measured
  std::vector<std::pair<std::string, double>> values;       // what came out

  Row& Label(absl::string_view name, absl::string_view value);
  Row& Label(absl::string_view name, int64_t value);
  Row& Value(absl::string_view name, double value);
  // samples, min_us, p50_us, p90_us, p99_us, p999_us, max_us, round_low_us, round_high_us.
  Row& Times(const Distribution& distribution);
};

struct Table {
  std::string name;   // the JSON's list's and the table's: "latency", "ratios"
  std::string title;  // one line for people
  std::vector<Row> rows;
};

// Lines over one x: a series for each combination of the `series` labels. A logarithmic axis leaves
// out what is not above zero.
struct Plot {
  std::string title;
  std::string table;                // by name
  std::string x;                    // a label or a value of that table whose text is a number
  std::string y;                    // a value of that table
  std::vector<std::string> series;  // labels
  bool log_x = true;
  bool log_y = true;
};

class Report {
 public:
  // `program` is the benchmark's name, `question` the one that it answers.
  Report(std::string program, std::string question);

  // "payload", "64 B" and the like, besides what GatherConditions finds out.
  void Condition(absl::string_view name, absl::string_view value);
  Table& AddTable(absl::string_view name, absl::string_view title);
  void AddPlot(Plot plot) { plots_.push_back(std::move(plot)); }
  // A sentence that goes below the tables, and into the JSON's "notes".
  void Note(absl::string_view text);

  const std::string& program() const { return program_; }

  // Conditions, tables and notes, for people.
  void Print() const;
  // {"benchmark", "question", "conditions": {...}, "tables": {name: [{label and value: ...}]},
  // "titles": {name: ...}, "notes": []}. A label that reads as an integer becomes a number, and a
  // value that is no finite number null.
  absl::Status WriteJson(const std::string& path) const;
  // All plots in one SVG, one below the other, drawn by gnuplot.
  absl::Status WritePlot(const std::string& path) const;

 private:
  std::string program_;
  std::string question_;
  std::vector<std::pair<std::string, std::string>> conditions_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<Plot> plots_;
  std::vector<std::string> notes_;
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_HARNESS_REPORT_H_
