// Report::WritePlot: gnuplot draws, and gets the figures in blocks of its own input.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "bench/harness/report.h"

namespace invoker::bench {
namespace {

constexpr char kGnuplot[] = "/usr/bin/gnuplot";
constexpr int kWidth = 1000;
constexpr int kHeight = 420;  // one plot's
constexpr size_t kMostMarks = 12;
constexpr double kMargin = 1.3;  // beside the first and the last point of a logarithmic axis

// One for each line of a picture; people who do not see all colours can tell these apart.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"};
constexpr size_t kMostLines = std::size(kColours);

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

// A string of gnuplot's in which nothing is special.
std::string Quote(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}, {"\n", " "}}), "'");
}

// "p50_us" becomes "p50 (us)".
std::string AxisName(const std::string& column) {
  const std::string words = absl::StrReplaceAll(column, {{"gb_per", "GB_per"}, {"_", " "}});
  if (absl::StrContains(column, "_per_")) return words;
  const size_t unit = column.rfind('_');
  if (unit == std::string::npos) return words;
  for (absl::string_view known : {"ns", "us", "ms", "s", "bytes", "kib", "mib", "percent"}) {
    if (column.substr(unit + 1) == known) {
      return absl::StrCat(words.substr(0, unit), " (", known, ")");
    }
  }
  return words;
}

bool NumberIn(const Row& row, const std::string& name, double* number) {
  for (const auto& [label, text] : row.labels) {
    if (label == name) return absl::SimpleAtod(text, number);
  }
  for (const auto& [value, amount] : row.values) {
    if (value != name) continue;
    *number = amount;
    return std::isfinite(amount);
  }
  return false;
}

std::string SeriesName(const Row& row, const Plot& plot) {
  std::vector<std::string> parts;
  for (const std::string& wanted : plot.series) {
    for (const auto& [label, text] : row.labels) {
      if (label == wanted) parts.push_back(text);
    }
  }
  return absl::StrJoin(parts, ", ");
}

std::vector<Series> SeriesOf(const Table& table, const Plot& plot) {
  std::vector<Series> result;
  for (const Row& row : table.rows) {
    double x, y;
    if (!NumberIn(row, plot.x, &x) || !NumberIn(row, plot.y, &y)) continue;
    if ((plot.log_x && x <= 0) || (plot.log_y && y <= 0)) continue;
    const std::string name = SeriesName(row, plot);
    auto series = std::find_if(result.begin(), result.end(),
                               [&](const Series& known) { return known.name == name; });
    if (series == result.end()) series = result.insert(series, {name, {}});
    series->points.emplace_back(x, y);
  }
  for (Series& series : result) std::sort(series.points.begin(), series.points.end());
  return result;
}

// "4 KiB".
std::string SizeName(double bytes) {
  int unit = 0;
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  for (; unit < 3 && bytes >= 1024; ++unit) bytes /= 1024;
  return absl::StrCat(bytes, " ", kUnits[unit]);
}

// Marks the sizes that were measured, but no more than fit beside each other.
std::string SizeMarks(const std::vector<Series>& all) {
  std::set<double> sizes;
  for (const Series& series : all) {
    for (const auto& [x, y] : series.points) sizes.insert(x);
  }
  const size_t step = (sizes.size() + kMostMarks - 1) / kMostMarks;
  std::vector<std::string> marks;
  size_t i = 0;
  for (double size : sizes) {
    if (i++ % step == 0) marks.push_back(absl::StrCat(Quote(SizeName(size)), " ", size));
  }
  return absl::StrCat("set xtics (", absl::StrJoin(marks, ", "), ")\n");
}

bool IsSize(const std::string& column) {
  return column == "bytes" || absl::EndsWith(column, "_bytes");
}

std::string StyleOf(size_t series) {
  return absl::StrCat("linecolor rgb '", kColours[series],
                      "' linewidth 1.8 pointtype 7 pointsize 0.5");
}

// `all` has kMostLines at most. `number` makes the names of the data blocks differ.
std::string DrawOne(const Plot& plot, const std::vector<Series>& all, size_t number) {
  double least = 0;
  double first = all[0].points[0].first;
  double last = first;
  for (const Series& series : all) {
    for (const auto& [x, y] : series.points) {
      least = std::min(least, y);
      first = std::min(first, x);
      last = std::max(last, x);
    }
  }
  std::string script =
      absl::StrCat("set title ", Quote(plot.title), "\nset xlabel ", Quote(AxisName(plot.x)),
                   "\nset ylabel ", Quote(AxisName(plot.y)), "\nunset logscale\n",
                   IsSize(plot.x) ? SizeMarks(all) : "set xtics autofreq\n",
                   // A linear axis that does not begin at zero makes small differences look large.
                   !plot.log_y && least >= 0 ? "set yrange [0:*]\n" : "set yrange [*:*]\n");
  if (plot.log_x) {
    // Otherwise it would go on to the next power of ten.
    absl::StrAppend(&script, "set logscale x\nset xrange [", first / kMargin, ":", last * kMargin,
                    "]\n");
  } else {
    absl::StrAppend(&script, "set xrange [*:*]\n");
  }
  if (plot.log_y) absl::StrAppend(&script, "set logscale y\n");
  std::vector<std::string> lines;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string block = absl::StrCat("$p", number, "s", i);
    absl::StrAppend(&script, block, " << END_OF_DATA\n");
    for (const auto& [x, y] : all[i].points) absl::StrAppend(&script, x, " ", y, "\n");
    absl::StrAppend(&script, "END_OF_DATA\n");
    lines.push_back(absl::StrCat(block, " using 1:2 with linespoints ", StyleOf(i), " title ",
                                 Quote(all[i].name)));
  }
  absl::StrAppend(&script, "plot ", absl::StrJoin(lines, ", "), "\n");
  return script;
}

const std::string* LabelOf(const Row& row, const std::string& name) {
  for (const auto& [label, text] : row.labels) {
    if (label == name) return &text;
  }
  return nullptr;
}

// If there are too many lines for a picture: one for each value of the first label of the series,
// and in the end one for each few lines.
void Draw(const Table& table, const Plot& plot, std::vector<std::string>* drawings) {
  const std::vector<Series> all = SeriesOf(table, plot);
  if (all.empty()) return;
  if (all.size() <= kMostLines || plot.series.size() == 1) {
    for (size_t first = 0; first < all.size(); first += kMostLines) {
      const auto begin = all.begin() + static_cast<ptrdiff_t>(first);
      const auto count = static_cast<ptrdiff_t>(std::min(kMostLines, all.size() - first));
      drawings->push_back(DrawOne(plot, {begin, begin + count}, drawings->size()));
    }
    return;
  }
  Plot part = plot;
  part.series.erase(part.series.begin());
  std::vector<std::string> values;
  for (const Row& row : table.rows) {
    const std::string* const value = LabelOf(row, plot.series.front());
    if (value == nullptr || std::count(values.begin(), values.end(), *value) > 0) continue;
    values.push_back(*value);
    Table rows;
    std::copy_if(table.rows.begin(), table.rows.end(), std::back_inserter(rows.rows),
                 [&](const Row& other) {
                   const std::string* const its = LabelOf(other, plot.series.front());
                   return its != nullptr && *its == *value;
                 });
    part.title = absl::StrCat(plot.title, ": ", *value);
    Draw(rows, part, drawings);
  }
}

}  // namespace

absl::Status Report::WritePlot(const std::string& path) const {
  std::vector<std::string> drawings;
  for (const Plot& plot : plots_) {
    for (const std::unique_ptr<Table>& table : tables_) {
      if (table->name == plot.table) Draw(*table, plot, &drawings);
    }
  }
  if (drawings.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot draw ", path, ": there is nothing to draw"));
  }
  if (access(kGnuplot, X_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot draw ", path, ": ", kGnuplot,
                                                      " is not there; tools/setup installs it"));
  }
  std::string script = absl::StrCat("set terminal svg size ", kWidth, ",",
                                    kHeight * static_cast<int>(drawings.size()),
                                    " noenhanced background 'white' font 'sans-serif,13'\n"
                                    "set output ",
                                    Quote(path), "\n");
  absl::StrAppend(&script,
                  "set key outside right top Left reverse\n"
                  "set grid linecolor rgb '#dddddd'\nset border 3\nset tics nomirror\n"
                  "set format '%.10g'\n"
                  "set multiplot layout ",
                  drawings.size(), ",1\n", absl::StrJoin(drawings, ""), "unset multiplot\n");
  fflush(nullptr);
  // gnuplot ends at the first error, maybe before it has read everything.
  void (*const usual)(int) = signal(SIGPIPE, SIG_IGN);
  FILE* pipe = popen(absl::StrCat(kGnuplot, " -").c_str(), "w");
  if (pipe == nullptr) {
    signal(SIGPIPE, usual);
    return absl::InternalError(absl::StrCat("cannot start ", kGnuplot, ": ", strerror(errno)));
  }
  const bool written = fwrite(script.data(), 1, script.size(), pipe) == script.size();
  const int end = pclose(pipe);
  signal(SIGPIPE, usual);
  if (!written || end != 0) {
    return absl::InternalError(absl::StrCat("cannot draw ", path, ": gnuplot ended with status ",
                                            WIFEXITED(end) ? WEXITSTATUS(end) : -1,
                                            "; see what it says on standard error"));
  }
  return absl::OkStatus();
}

}  // namespace invoker::bench
