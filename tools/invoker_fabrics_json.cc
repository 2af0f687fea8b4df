// `invoker fabrics --json`. The keys are an interface: add to them, do not rename them.

#include "nlohmann/json.hpp"
#include "tools/invoker_fabrics.h"

namespace invoker::tools {
namespace {

using nlohmann::ordered_json;
using transport::Decision;
using transport::FabricReport;
using transport::SelfTestResult;

// null where nothing is known.
ordered_json OrNull(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}
ordered_json OrNull(uint64_t number) { return number == 0 ? ordered_json() : ordered_json(number); }

ordered_json AsJson(const Decision& decision) {
  ordered_json json;
  json["choice"] = decision.choice;
  json["why"] = decision.why;
  return json;
}

ordered_json LinkAsJson(const transport::LinkFacts& link) {
  ordered_json json;
  json["state"] = OrNull(link.state);
  json["type"] = OrNull(link.type);
  json["bits_per_second"] = OrNull(link.bits_per_second);
  json["mtu"] = OrNull(link.mtu);
  json["device"] = OrNull(link.device);
  return json;
}

ordered_json ClaimsAsJson(const transport::FabricClaims& claims) {
  ordered_json json;
  json["capabilities"] = claims.capabilities;
  json["transmit_order"] = claims.transmit_order;
  json["receive_order"] = claims.receive_order;
  json["mr_mode"] = claims.memory_modes;
  json["mode"] = claims.modes;
  json["data_progress"] = claims.data_progress;
  json["cq_data_bytes"] = claims.cq_data_bytes;
  json["key_bytes"] = claims.key_bytes;
  json["inject_bytes"] = claims.inject_bytes;
  json["max_message_bytes"] = claims.max_message_bytes;
  json["transmit_depth"] = claims.transmit_depth;
  json["receive_depth"] = claims.receive_depth;
  return json;
}

ordered_json ObservedAsJson(const SelfTestResult& seen) {
  ordered_json json;
  json["ok"] = seen.status.ok();
  json["error"] = OrNull(std::string(seen.status.message()));
  json["died"] = seen.died;
  json["immediate_crossed"] = seen.immediate_crossed;
  json["immediate_failure"] = OrNull(seen.immediate_failure);
  json["send_after_write_crossed"] = seen.send_after_write_crossed;
  json["send_after_write_failure"] = OrNull(seen.send_after_write_failure);
  json["eager_bytes"] = seen.eager_bytes;
  json["immediate_bytes"] = seen.entry_seen ? ordered_json(seen.immediate_bytes) : ordered_json();
  json["entry_length_right"] =
      seen.entry_seen ? ordered_json(seen.entry_length_right) : ordered_json();
  json["entry_names_source"] =
      seen.entry_seen ? ordered_json(seen.entry_names_source) : ordered_json();
  json["sends_behind_writes"] = seen.sends_tried;
  json["sends_that_overtook"] = seen.sends_overtook;
  json["atomics"] = transport::AtomicsName(seen.atomics);
  json["wait"] = transport::WaitMethodName(seen.wait);
  json["wait_woke"] = seen.wait_woke;
  json["wake_us"] = seen.wake_us;
  json["round_trips"] = seen.round_trips;
  json["round_trip_p50_us"] = seen.round_trip_us;
  json["pieces_up_to"] = seen.pieces_up_to;
  json["methods"] = ordered_json::array();
  for (const transport::MethodTimes& times : seen.methods) {
    ordered_json each;
    each["bytes"] = times.bytes;
    each["pieces_us"] = static_cast<double>(times.pieces_ns) / 1e3;
    each["write_us"] = static_cast<double>(times.write_ns) / 1e3;
    json["methods"].push_back(each);
  }
  json["elapsed_ms"] = absl::ToDoubleMilliseconds(seen.elapsed);
  return json;
}

ordered_json FabricAsJson(const FabricReport& fabric) {
  ordered_json json;
  json["provider"] = fabric.provider;
  json["provider_version"] = fabric.provider_version;
  json["protocol"] = fabric.protocol;
  json["protocol_version"] = fabric.protocol_version;
  json["fabric"] = fabric.fabric;
  json["domain"] = fabric.domain;
  json["interface"] = OrNull(fabric.interface);
  json["address"] = OrNull(fabric.address);
  json["address_format"] = fabric.address_format;
  json["link"] = LinkAsJson(fabric.link);
  json["claims"] = ClaimsAsJson(fabric.claims);
  json["usable"] = fabric.usable.ok();
  json["unusable_reason"] = OrNull(std::string(fabric.usable.message()));
  json["plan"] = nullptr;
  json["evidence"] = nullptr;
  json["auto_rank"] = nullptr;
  json["observed"] = nullptr;
  if (fabric.usable.ok()) {
    ordered_json plan;
    plan["notification"] = AsJson(DecideNotification(fabric));
    plan["fallback"] = AsJson(DecideFallback(fabric));
    plan["keys"] = AsJson(DecideKeys(fabric));
    plan["addressing"] = AsJson(DecideAddressing(fabric));
    plan["atomics"] = AsJson(DecideAtomics(fabric));
    plan["wait"] = AsJson(DecideWait(fabric));
    plan["long_messages"] = AsJson(DecideMethod(fabric));
    plan["eager_bytes"] = fabric.profile.eager_bytes;
    json["plan"] = plan;
    json["evidence"] = transport::EvidenceName(fabric.profile.evidence);
    json["auto_rank"] = OrNull(uint64_t{fabric.profile.auto_rank});
  }
  if (fabric.observed.has_value()) json["observed"] = ObservedAsJson(*fabric.observed);
  return json;
}

ordered_json DeviceAsJson(const transport::RdmaDevice& device) {
  ordered_json json;
  json["name"] = device.name;
  json["node_type"] = OrNull(device.node_type);
  json["problem"] = OrNull(std::string(device.problem.message()));
  json["max_cqe"] = OrNull(uint64_t{device.max_cqe});
  json["ports"] = ordered_json::array();
  for (const transport::RdmaPort& port : device.ports) {
    ordered_json each;
    each["number"] = port.number;
    each["state"] = port.state;
    each["link_layer"] = port.link_layer;
    each["mtu"] = port.mtu_bytes;
    each["gigabits_per_second"] = port.gigabits_per_second;
    each["interface"] = OrNull(port.network_interface);
    each["gid"] = OrNull(port.gid);
    json["ports"].push_back(each);
  }
  return json;
}

ordered_json ServerAsJson(const FabricsOutcome& outcome) {
  ordered_json json;
  json["address"] = outcome.server;
  json["fabrics"] = ordered_json::array();
  for (const ServerFabric& fabric : outcome.server_fabrics) {
    ordered_json each;
    each["provider"] = fabric.provider;
    each["ok"] = fabric.status.ok();
    each["error"] = OrNull(std::string(fabric.status.message()));
    each["notification"] = OrNull(fabric.notification);
    each["downgrade_reason"] = OrNull(fabric.downgrade_reason);
    each["round_trips"] = fabric.pings;
    each["round_trip_p50_us"] = fabric.round_trip_us;
    json["fabrics"].push_back(each);
  }
  return json;
}

}  // namespace

std::string FabricsAsJson(const FabricsOutcome& outcome) {
  ordered_json json;
  json["libfabric"] = outcome.environment.libfabric_version;
  json["environment"] = outcome.environment.variables;
  json["locked_memory_bytes"] = outcome.environment.locked_memory.has_value()
                                    ? ordered_json(*outcome.environment.locked_memory)
                                    : ordered_json();
  json["rdma_devices"] = ordered_json::array();
  for (const transport::RdmaDevice& device : outcome.devices) {
    json["rdma_devices"].push_back(DeviceAsJson(device));
  }
  json["fabrics"] = ordered_json::array();
  for (const FabricReport& fabric : outcome.fabrics) {
    json["fabrics"].push_back(FabricAsJson(fabric));
  }
  json["absent"] = ordered_json::array();
  for (const AbsentProvider& absent : outcome.absent) {
    ordered_json each;
    each["provider"] = absent.provider;
    each["hint"] = absent.hint;
    json["absent"].push_back(each);
  }
  json["server"] = outcome.server.empty() ? ordered_json() : ServerAsJson(outcome);
  // Names that are not UTF-8 must not end the program.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace invoker::tools
