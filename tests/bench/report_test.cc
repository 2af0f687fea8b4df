#include "bench/harness/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace invoker::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    report_.Condition("cpu", "A \"fast\" one\n");
    Table& table = report_.AddTable("latency", "Round trips");
    table.rows.emplace_back()
        .Label("provider", "tcp;ofi_rxm")
        .Label("bytes", 64)
        .Value("p50_us", 12.3456789);
    table.rows.emplace_back()
        .Label("provider", "shm")
        .Label("bytes", 1048576)
        .Value("p50_us", 123456.7)
        .Value("ratio", std::numeric_limits<double>::quiet_NaN());
    report_.Note("A note.");
  }

  // What tests that run at the same time do not write, too.
  std::string Path(const std::string& name) { return absl::StrCat(testing::TempDir(), "/", name); }

  nlohmann::ordered_json WrittenJson() {
    const std::string path = Path("report.json");
    EXPECT_TRUE(report_.WriteJson(path).ok());
    return nlohmann::ordered_json::parse(Contents(path));
  }

  Report report_{"invoke_latency", "How long?"};
};

TEST_F(ReportTest, JsonHoldsEverything) {
  const nlohmann::ordered_json json = WrittenJson();
  EXPECT_EQ(json["benchmark"], "invoke_latency");
  EXPECT_EQ(json["question"], "How long?");
  EXPECT_EQ(json["conditions"]["cpu"], "A \"fast\" one\n");
  EXPECT_EQ(json["titles"]["latency"], "Round trips");
  EXPECT_EQ(json["notes"][0], "A note.");
  const nlohmann::ordered_json& rows = json["tables"]["latency"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].dump(), R"({"provider":"tcp;ofi_rxm","bytes":64,"p50_us":12.3456789})");
  EXPECT_EQ(rows[1].dump(), R"({"provider":"shm","bytes":1048576,"p50_us":123456.7,"ratio":null})");
}

TEST_F(ReportTest, LabelsThatOnlyResembleIntegersStayText) {
  Table& table = report_.AddTable("labels", "");
  table.rows.emplace_back().Label("a", "007").Label("b", "1e3").Label("c", " 1").Label("d", "-5");
  EXPECT_EQ(WrittenJson()["tables"]["labels"][0].dump(),
            R"({"a":"007","b":"1e3","c":" 1","d":-5})");
}

TEST_F(ReportTest, TextThatIsNotUtf8DoesNotLoseTheReport) {
  report_.Note("broken \xff here");
  EXPECT_THAT(WrittenJson()["notes"][1].get<std::string>(), HasSubstr("broken "));
}

TEST_F(ReportTest, AFileThatCannotBeWrittenIsNamed) {
  const std::string path = Path("no_such_directory/report.json");
  const absl::Status status = report_.WriteJson(path);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

TEST_F(ReportTest, TimesHasAFixedSetOfColumns) {
  Row row;
  row.Times(Summarize({{1000, 2000, 3000}}));
  std::string names;
  for (const auto& [name, value] : row.values) absl::StrAppend(&names, name, " ");
  EXPECT_EQ(names,
            "samples min_us p50_us p90_us p99_us p999_us max_us round_low_us round_high_us ");
  EXPECT_EQ(row.values[2].second, 2);
}

TEST_F(ReportTest, TextAlignsNumbersRightAndWordsLeft) {
  testing::internal::CaptureStdout();
  report_.Print();
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("  provider       bytes  p50_us  ratio\n"
                              "  tcp;ofi_rxm       64   12.35      -\n"
                              "  shm          1048576  123457      -\n"));
  EXPECT_THAT(text, HasSubstr("invoke_latency: How long?\n"));
  EXPECT_THAT(text, HasSubstr("\nA note.\n"));
}

class PlotTest : public ReportTest {
 protected:
  PlotTest() {
    Table& table = report_.AddTable("curve", "");
    for (int bytes : {0, 64, 128, 4096}) {
      for (absl::string_view who : {"raw", "in'voker_x"}) {
        table.rows.emplace_back()
            .Label("who", who)
            .Label("bytes", bytes)
            .Value("p50_us", 1.0 + bytes)
            .Value("calls_per_s", 1e6);
      }
    }
    plot_.title = "It's `touch x` <fast>";
    plot_.table = "curve";
    plot_.x = "bytes";
    plot_.y = "p50_us";
    plot_.series = {"who"};
  }

  Plot plot_;
};

TEST_F(PlotTest, DrawsEveryPlotWithUnitsAndALegend) {
  report_.AddPlot(plot_);
  plot_.title = "Second";
  plot_.y = "calls_per_s";
  plot_.log_y = false;
  report_.AddPlot(plot_);
  const std::string path = Path("it's_a_plot.svg");
  const absl::Status status = report_.WritePlot(path);
  ASSERT_TRUE(status.ok()) << status;
  const std::string svg = Contents(path);
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, HasSubstr("touch x"));
  EXPECT_THAT(svg, HasSubstr("Second"));
  EXPECT_THAT(svg, HasSubstr("p50 (us)"));
  EXPECT_THAT(svg, HasSubstr("calls per s"));
  EXPECT_THAT(svg, HasSubstr(">raw<"));
  EXPECT_THAT(svg, HasSubstr("voker_x<"));
  EXPECT_THAT(svg, HasSubstr("4 KiB"));
}

TEST_F(PlotTest, APictureHasFiveLinesAtMost) {
  Table& table = report_.AddTable("many", "");
  for (absl::string_view fabric : {"one", "two"}) {
    for (int line = 0; line < 7; ++line) {
      for (int bytes : {64, 128}) {
        table.rows.emplace_back()
            .Label("fabric", fabric)
            .Label("line", absl::StrCat("line ", line))
            .Label("bytes", bytes)
            .Value("p50_us", 1.0 + bytes);
      }
    }
  }
  plot_.table = "many";
  plot_.title = "Many";
  plot_.series = {"fabric", "line"};
  report_.AddPlot(plot_);
  const std::string path = Path("many.svg");
  const absl::Status status = report_.WritePlot(path);
  ASSERT_TRUE(status.ok()) << status;
  const std::string svg = Contents(path);
  // Five of the seven lines of each fabric, then the other two.
  for (const char* title : {">Many: one<", ">Many: two<"}) {
    size_t pictures = 0;
    for (size_t at = 0; (at = svg.find(title, at)) != std::string::npos; ++at) ++pictures;
    EXPECT_EQ(pictures, 2u) << title;
  }
  EXPECT_THAT(svg, HasSubstr(">line 6<"));
}

TEST_F(PlotTest, NothingToDrawIsAnError) {
  EXPECT_FALSE(report_.WritePlot(Path("nothing.svg")).ok());
  plot_.y = "no_such_column";
  report_.AddPlot(plot_);
  const absl::Status status = report_.WritePlot(Path("nothing.svg"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing to draw"));
  EXPECT_THAT(Contents(Path("nothing.svg")), Not(HasSubstr("svg")));
}

TEST_F(PlotTest, AFileThatCannotBeWrittenIsAnError) {
  // More than a pipe holds: gnuplot ends without having read it.
  Table& table = report_.AddTable("long", "");
  for (int i = 1; i < 20000; ++i) table.rows.emplace_back().Label("bytes", i).Value("p50_us", i);
  plot_.table = "long";
  report_.AddPlot(plot_);
  const std::string path = Path("no_such_directory/plot.svg");
  EXPECT_THAT(std::string(report_.WritePlot(path).message()), HasSubstr(path));
}

}  // namespace
}  // namespace invoker::bench
