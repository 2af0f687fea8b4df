#include "src/transport/self_test/self_test_message.h"

namespace invoker::transport {
namespace {

// Whether `value` is that of an enumerator up to `last`, which it then becomes.
template <typename Enum>
bool GetEnum(uint32_t value, Enum last, Enum* out) {
  *out = static_cast<Enum>(value);
  return value <= static_cast<uint32_t>(last);
}

}  // namespace

v1::SelfTestRequest ToProto(const FabricRequest& request) {
  v1::SelfTestRequest message;
  message.set_provider(request.provider);
  message.set_address(request.address);
  message.set_peer_address(request.peer_address);
  message.set_peer_address_format(request.peer_address_format);
  return message;
}

FabricRequest FromProto(const v1::SelfTestRequest& message) {
  FabricRequest request;
  request.provider = message.provider();
  request.address = message.address();
  request.peer_address = message.peer_address();
  request.peer_address_format = message.peer_address_format();
  return request;
}

v1::SelfTestResult ToProto(const SelfTestResult& result) {
  v1::SelfTestResult message;
  message.mutable_status()->set_code(static_cast<int32_t>(result.status.code()));
  message.mutable_status()->set_text(std::string(result.status.message()));
  message.set_notification(static_cast<uint32_t>(result.notification));
  message.set_immediate_crossed(result.immediate_crossed);
  message.set_immediate_failure(result.immediate_failure);
  message.set_send_after_write_crossed(result.send_after_write_crossed);
  message.set_send_after_write_failure(result.send_after_write_failure);
  message.set_eager_bytes(result.eager_bytes);
  message.set_entry_seen(result.entry_seen);
  message.set_immediate_bytes(result.immediate_bytes);
  message.set_entry_length_right(result.entry_length_right);
  message.set_entry_names_source(result.entry_names_source);
  message.set_sends_tried(result.sends_tried);
  message.set_sends_overtook(result.sends_overtook);
  message.set_atomics(static_cast<uint32_t>(result.atomics));
  message.set_wait(static_cast<uint32_t>(result.wait));
  message.set_wait_woke(result.wait_woke);
  message.set_wake_us(result.wake_us);
  message.set_round_trip_us(result.round_trip_us);
  message.set_round_trips(result.round_trips);
  message.set_pieces_up_to(result.pieces_up_to);
  for (const MethodTimes& times : result.methods) {
    v1::SelfTestResult::MethodTimes* const added = message.add_methods();
    added->set_bytes(times.bytes);
    added->set_pieces_ns(times.pieces_ns);
    added->set_write_ns(times.write_ns);
  }
  message.set_elapsed_ns(absl::ToInt64Nanoseconds(result.elapsed));
  return message;
}

absl::StatusOr<SelfTestResult> FromProto(const v1::SelfTestResult& message) {
  SelfTestResult result;
  if (!message.has_status() ||
      !GetEnum(message.notification(), Notification::kSendAfterWrite, &result.notification) ||
      !GetEnum(message.atomics(), AtomicsSeen::kFailed, &result.atomics) ||
      !GetEnum(message.wait(), WaitMethod::kBackoff, &result.wait)) {
    return absl::InvalidArgumentError("no result of a self-test");
  }
  result.status =
      absl::Status(static_cast<absl::StatusCode>(message.status().code()), message.status().text());
  result.immediate_crossed = message.immediate_crossed();
  result.immediate_failure = message.immediate_failure();
  result.send_after_write_crossed = message.send_after_write_crossed();
  result.send_after_write_failure = message.send_after_write_failure();
  result.eager_bytes = message.eager_bytes();
  result.entry_seen = message.entry_seen();
  result.immediate_bytes = message.immediate_bytes();
  result.entry_length_right = message.entry_length_right();
  result.entry_names_source = message.entry_names_source();
  result.sends_tried = message.sends_tried();
  result.sends_overtook = message.sends_overtook();
  result.wait_woke = message.wait_woke();
  result.wake_us = message.wake_us();
  result.round_trip_us = message.round_trip_us();
  result.round_trips = message.round_trips();
  result.pieces_up_to = message.pieces_up_to();
  for (const v1::SelfTestResult::MethodTimes& times : message.methods()) {
    result.methods.push_back({times.bytes(), times.pieces_ns(), times.write_ns()});
  }
  result.elapsed = absl::Nanoseconds(message.elapsed_ns());
  return result;
}

}  // namespace invoker::transport
