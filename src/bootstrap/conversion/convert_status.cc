#include "src/bootstrap/conversion/convert_status.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "src/bootstrap/conversion/convert.h"
#include "src/bootstrap/conversion/convert_lease.h"

namespace invoker::bootstrap {
namespace {

using Counts = google::protobuf::RepeatedPtrField<v1::GetStatusReply::Count>;

void Fill(const ExecutorsStatus& executors, v1::GetStatusReply::Executors* message) {
  message->set_starting(executors.starting);
  message->set_idle(executors.idle);
  message->set_busy(executors.busy);
  message->set_starts(executors.starts);
  message->set_cold_starts(executors.cold_starts);
  message->set_registered_bytes(executors.registered_bytes);
  message->set_requests_waiting(executors.requests_waiting);
  message->set_sessions(executors.sessions);
  for (const auto& [key, counts] : executors.functions.rows()) {
    v1::GetStatusReply::Executors::Function* function = message->add_functions();
    function->set_name(key.first);
    function->set_provider(key.second);
    function->set_calls(counts.calls);
    function->set_failures(counts.failures);
    function->set_bytes_in(counts.bytes_in);
    function->set_bytes_out(counts.bytes_out);
    for (const uint64_t count : counts.time.counts) function->add_times(count);
    function->set_time_ns(counts.time.sum_ns);
  }
}

ExecutorsStatus Take(const v1::GetStatusReply::Executors& message) {
  ExecutorsStatus executors;
  executors.starting = message.starting();
  executors.idle = message.idle();
  executors.busy = message.busy();
  executors.starts = message.starts();
  executors.cold_starts = message.cold_starts();
  executors.registered_bytes = message.registered_bytes();
  executors.requests_waiting = message.requests_waiting();
  executors.sessions = message.sessions();
  for (const auto& function : message.functions()) {
    FunctionCounts counts;
    counts.calls = function.calls();
    counts.failures = function.failures();
    counts.bytes_in = function.bytes_in();
    counts.bytes_out = function.bytes_out();
    for (int i = 0; i < function.times_size(); ++i) {
      counts.time.counts[std::min(static_cast<size_t>(i), LatencyBuckets::kCount - 1)] +=
          function.times(i);
    }
    counts.time.sum_ns = function.time_ns();
    executors.functions.Add(function.name(), function.provider(), counts);
  }
  return executors;
}

void Fill(const Refusals& refusals, Counts* message) {
  for (const auto& [reason, count] : refusals) {
    v1::GetStatusReply::Count* each = message->Add();
    each->set_reason(reason);
    each->set_count(count);
  }
}

Refusals Take(const Counts& message) {
  Refusals refusals;
  for (const auto& each : message) refusals.emplace_back(each.reason(), each.count());
  return refusals;
}

}  // namespace

v1::GetStatusReply ToProto(const ServerStatus& status) {
  v1::GetStatusReply message;
  message.set_address(status.address);
  message.set_version(status.version);
  message.set_started_unix_s(absl::ToUnixSeconds(status.started));
  message.set_draining(status.draining);
  for (const std::string& fabric : status.fabrics) message.add_providers(fabric);
  const WorkerStatus& worker = status.worker;
  Fill(worker.shared, message.mutable_shared());
  Fill(worker.leased, message.mutable_leased());
  message.set_leases_shared(worker.leases_shared);
  message.set_leases_own(worker.leases_own);
  message.set_leases_waiting(worker.leases_waiting);
  message.set_leases_lost(worker.leases_lost);
  for (const LostLease& lost : worker.last_lost) {
    v1::GetStatusReply::LostLease* each = message.add_last_lost();
    each->set_lease(lost.lease);
    each->set_tenant(lost.tenant);
    each->set_reason(PrintableText(lost.reason, kMaxReasonBytes));
    each->set_at_unix_us(absl::ToUnixMicros(lost.at));
  }
  for (const UsageRecord& lease : status.open_leases) *message.add_open_leases() = ToProto(lease);
  message.set_cores(status.capacity.cores);
  message.set_free_cores(status.capacity.free_cores);
  message.set_memory_bytes(status.capacity.memory_bytes);
  message.set_free_memory_bytes(status.capacity.free_memory_bytes);
  for (const DropCount& drop : worker.drops) {
    v1::GetStatusReply::Count* each = message.add_dropped();
    each->set_reason(drop.reason);
    each->set_count(drop.count);
  }
  Fill(status.refused_connections, message.mutable_refused_connections());
  Fill(status.refused_session_tokens, message.mutable_refused_session_tokens());
  message.set_refused_sessions(status.refused_sessions);
  message.set_refused_requests(status.refused_requests);
  message.set_downgrades(worker.downgrades);
  message.set_endpoints_given_up(worker.endpoints_given_up);
  message.set_bulk_bytes(status.bulk_bytes);
  for (const auto& [subject, end] : status.certificates) {
    v1::GetStatusReply::Certificate* certificate = message.add_certificates();
    certificate->set_subject(subject);
    certificate->set_ends_unix_s(absl::ToUnixSeconds(end));
  }
  return message;
}

ServerStatus FromProto(const v1::GetStatusReply& message) {
  ServerStatus status;
  status.address = message.address();
  status.version = message.version();
  status.started = absl::FromUnixSeconds(message.started_unix_s());
  status.draining = message.draining();
  status.fabrics.assign(message.providers().begin(), message.providers().end());
  WorkerStatus& worker = status.worker;
  worker.shared = Take(message.shared());
  worker.leased = Take(message.leased());
  worker.leases_shared = message.leases_shared();
  worker.leases_own = message.leases_own();
  worker.leases_waiting = message.leases_waiting();
  worker.leases_lost = message.leases_lost();
  for (const auto& lost : message.last_lost()) {
    worker.last_lost.push_back({lost.lease(), PrintableText(lost.tenant(), kMaxTenantBytes),
                                lost.reason(), absl::FromUnixMicros(lost.at_unix_us())});
  }
  for (const auto& lease : message.open_leases()) status.open_leases.push_back(FromProto(lease));
  status.capacity.cores = message.cores();
  status.capacity.free_cores = message.free_cores();
  status.capacity.memory_bytes = message.memory_bytes();
  status.capacity.free_memory_bytes = message.free_memory_bytes();
  for (const auto& drop : message.dropped()) worker.drops.push_back({drop.reason(), drop.count()});
  status.refused_connections = Take(message.refused_connections());
  status.refused_session_tokens = Take(message.refused_session_tokens());
  status.refused_sessions = message.refused_sessions();
  status.refused_requests = message.refused_requests();
  worker.downgrades = message.downgrades();
  worker.endpoints_given_up = message.endpoints_given_up();
  status.bulk_bytes = message.bulk_bytes();
  for (const auto& certificate : message.certificates()) {
    status.certificates.emplace_back(certificate.subject(),
                                     absl::FromUnixSeconds(certificate.ends_unix_s()));
  }
  return status;
}

}  // namespace invoker::bootstrap
