// What invoke_latency measures, and the tables that it makes of it.

#ifndef INVOKER_BENCH_PROGRAMS_LATENCY_STUDY_H_
#define INVOKER_BENCH_PROGRAMS_LATENCY_STUDY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/harness/interleave.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/programs/grpc_contender.h"

namespace invoker::bench {

struct LatencyOptions {
  CommonOptions common;
  std::vector<size_t> sizes;
  std::vector<size_t> grpc_sizes;
  std::vector<std::string> modes;
  bool grpc = true;
};

// One thread, the main one.
class LatencyStudy {
 public:
  // Both outlive the study.
  LatencyStudy(const LatencyOptions& options, Report* report);

  // Which way of gRPC is the fastest, for each flavor of its server. Before the first Measure.
  absl::Status ScreenGrpc();

  // Everything that was asked for, over one fabric.
  absl::Status Measure(const std::string& provider);

 private:
  using Pair = std::pair<absl::string_view, absl::string_view>;

  absl::Status Hot(const std::string& provider);
  absl::Status Warm(const std::string& provider);
  absl::Status Adaptive(const std::string& provider);
  absl::Status Grpc(const std::string& provider);

  // Interleaves, and adds a row for each contender and size, and one for each pair (subject,
  // baseline) and size.
  absl::Status Run(const std::string& provider, absl::string_view mode,
                   const std::vector<Contender*>& contenders, const InterleavePlan& plan,
                   const std::vector<Pair>& pairs, std::vector<Measured>* measured = nullptr);
  void AddRatios(const std::string& provider, absl::string_view mode,
                 absl::Span<const Measured> measured, absl::string_view subject,
                 absl::string_view baseline, size_t bytes);
  // Whether the step from 4096 to 8192 bytes costs us more than the fabric.
  void AddCliff(const std::string& provider, absl::Span<const Measured> measured);
  bool Has(absl::string_view mode) const;
  InterleavePlan Plan() const;

  const LatencyOptions& options_;
  Report* const report_;
  Table* const latency_;
  Table* const ratios_;
  Table* cliff_ = nullptr;
  std::unique_ptr<GrpcServers> grpc_servers_;
  std::vector<GrpcServers::Way> grpc_ways_;  // the fastest of each flavor
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_LATENCY_STUDY_H_
