// Metrics and their values, on their way into Prometheus's text format. One thread.

#ifndef INVOKER_SRC_STATUS_METRIC_FAMILIES_H_
#define INVOKER_SRC_STATUS_METRIC_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/latency_histogram.h"
#include "src/bootstrap/messages/worker_status.h"

namespace invoker::status {

using Labels = std::vector<std::pair<std::string, std::string>>;

// One metric: its name, what it means, and its values.
class Family {
 public:
  using Type = prometheus::MetricType;

  Family(std::string name, std::string help, Type type) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = type;
  }

  void Add(double value, const Labels& labels = {});
  void Add(uint64_t value, const Labels& labels = {}) { Add(static_cast<double>(value), labels); }
  void Add(const LatencyHistogram& times, const Labels& labels);

  prometheus::MetricFamily Take() { return std::move(family_); }

 private:
  prometheus::MetricFamily family_;
};

// The metrics of calls by function and fabric: their names begin with `prefix`, and their meanings
// are the texts.
struct CallTexts {
  std::string prefix;
  std::string calls;
  std::string failures;
  std::string bytes_in;
  std::string bytes_out;
  std::string times;
};

class CallFamilies {
 public:
  explicit CallFamilies(const CallTexts& texts);

  // Every row gets `more` labels.
  void Add(const bootstrap::FunctionTable& table, const Labels& more = {});
  std::vector<Family> Take();

 private:
  Family calls_;
  Family failures_;
  Family bytes_in_;
  Family bytes_out_;
  Family times_;
};

class Families {
 public:
  void Add(Family family) { all_.push_back(family.Take()); }
  void Add(CallFamilies calls) {
    for (Family& family : calls.Take()) Add(std::move(family));
  }
  void AddCounter(const char* name, const char* help, uint64_t value) {
    Family family(name, help, Family::Type::Counter);
    family.Add(value);
    Add(std::move(family));
  }
  void AddGauge(const char* name, const char* help, double value) {
    Family family(name, help, Family::Type::Gauge);
    family.Add(value);
    Add(std::move(family));
  }

  std::string Text() const;

 private:
  std::vector<prometheus::MetricFamily> all_;
};

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_METRIC_FAMILIES_H_
