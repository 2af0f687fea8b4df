#include "src/status/metric_families.h"

#include <prometheus/text_serializer.h>

#include <cstddef>
#include <limits>
#include <sstream>

namespace invoker::status {
namespace {

using prometheus::ClientMetric;

ClientMetric Labelled(const Labels& labels) {
  ClientMetric metric;
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

}  // namespace

void Family::Add(double value, const Labels& labels) {
  ClientMetric metric = Labelled(labels);
  if (family_.type == Type::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  family_.metric.push_back(std::move(metric));
}

void Family::Add(const LatencyHistogram& times, const Labels& labels) {
  ClientMetric metric = Labelled(labels);
  uint64_t sum = 0;
  for (size_t i = 0; i < times.counts.size(); ++i) {
    sum += times.counts[i];
    const bool last = i + 1 == times.counts.size();
    metric.histogram.bucket.push_back(
        {sum, last ? std::numeric_limits<double>::infinity()
                   : static_cast<double>(LatencyBuckets::EndNs(i)) / 1e9});
  }
  metric.histogram.sample_count = sum;
  metric.histogram.sample_sum = static_cast<double>(times.sum_ns) / 1e9;
  family_.metric.push_back(std::move(metric));
}

CallFamilies::CallFamilies(const CallTexts& texts)
    : calls_(texts.prefix + "calls_total", texts.calls, Family::Type::Counter),
      failures_(texts.prefix + "call_failures_total", texts.failures, Family::Type::Counter),
      bytes_in_(texts.prefix + "request_bytes_total", texts.bytes_in, Family::Type::Counter),
      bytes_out_(texts.prefix + "response_bytes_total", texts.bytes_out, Family::Type::Counter),
      times_(texts.prefix + "call_duration_seconds", texts.times, Family::Type::Histogram) {}

void CallFamilies::Add(const bootstrap::FunctionTable& table, const Labels& more) {
  for (const auto& [key, counts] : table.rows()) {
    Labels labels = {{"function", key.first}, {"fabric", key.second}};
    labels.insert(labels.end(), more.begin(), more.end());
    calls_.Add(counts.calls, labels);
    failures_.Add(counts.failures, labels);
    bytes_in_.Add(counts.bytes_in, labels);
    bytes_out_.Add(counts.bytes_out, labels);
    times_.Add(counts.time, labels);
  }
}

std::vector<Family> CallFamilies::Take() {
  std::vector<Family> families;
  for (Family* family : {&calls_, &failures_, &bytes_in_, &bytes_out_, &times_}) {
    families.push_back(std::move(*family));
  }
  return families;
}

std::string Families::Text() const {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, all_);
  return text.str();
}

}  // namespace invoker::status
