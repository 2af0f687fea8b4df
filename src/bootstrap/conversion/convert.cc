#include "src/bootstrap/conversion/convert.h"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/messages/compatibility.h"

namespace invoker::bootstrap {
namespace {

void SetWindow(const WindowDescriptor& window, v1::Window* message) {
  message->set_base(window.base);
  message->set_length(window.length);
  message->set_key(window.key);
}

WindowDescriptor GetWindow(const v1::Window& message) {
  return WindowDescriptor{message.base(), message.length(), message.key()};
}

void SetAddress(const std::string& address, v1::EndpointAddress* message) {
  message->set_length(static_cast<uint32_t>(address.size()));
  message->set_address(address);
}

absl::Status GetAddress(const v1::EndpointAddress& message, std::string* address) {
  const size_t size = message.address().size();
  if (message.length() != size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "endpoint_address says it has ", message.length(), " bytes, but ", size, " arrived"));
  }
  if (size == 0 || size > kMaxAddressBytes) {
    return absl::InvalidArgumentError(absl::StrCat("endpoint_address has ", size, " bytes; 1 to ",
                                                   kMaxAddressBytes, " are accepted"));
  }
  *address = message.address();
  return absl::OkStatus();
}

absl::Status GetSessionNumber(absl::string_view field, uint32_t value, uint16_t* number) {
  if (value > std::numeric_limits<uint16_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", value, "; session numbers have 16 bits"));
  }
  *number = static_cast<uint16_t>(value);
  return absl::OkStatus();
}

absl::Status GetNotification(v1::Notification value, bool allow_auto, Notification* notification) {
  absl::StatusOr<Notification> result = FromProto(value, allow_auto);
  if (!result.ok()) return result.status();
  *notification = *result;
  return absl::OkStatus();
}

absl::Status GetDataAuth(v1::DataAuth value, DataAuth* auth) {
  absl::StatusOr<DataAuth> result = FromProto(value);
  if (!result.ok()) return result.status();
  *auth = *result;
  return absl::OkStatus();
}

absl::Status GetDataKey(absl::string_view field, const std::string& bytes, DataKey* key) {
  if (bytes.size() != key->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", bytes.size(), " bytes; a key has ", key->size()));
  }
  std::memcpy(key->data(), bytes.data(), key->size());
  return absl::OkStatus();
}

absl::Status GetOffers(const v1::GetWorkerInfoReply& message, std::vector<FabricOffer>* offers) {
  const size_t count = static_cast<size_t>(message.fabrics_size());
  if (count == 0 || count > kMaxFabrics) {
    return absl::InvalidArgumentError(
        absl::StrCat("the worker offers ", count, " fabrics; 1 to ", kMaxFabrics, " are accepted"));
  }
  for (const v1::FabricOffer& fabric : message.fabrics()) {
    if (fabric.source_address().size() > kMaxAddressBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("source_address has ", fabric.source_address().size(), " bytes; at most ",
                       kMaxAddressBytes, " are accepted"));
    }
    offers->push_back(
        {FromProto(fabric.identity()), fabric.source_address(), fabric.same_host_only()});
  }
  return absl::OkStatus();
}

}  // namespace

std::string PrintableText(absl::string_view text, size_t limit) {
  std::string printable(text.substr(0, limit));
  for (char& byte : printable) {
    if (byte < ' ' || byte > '~') byte = '?';
  }
  return printable;
}

v1::FabricIdentity ToProto(const FabricIdentity& fabric) {
  v1::FabricIdentity message;
  message.set_provider(fabric.provider);
  message.set_protocol(fabric.protocol);
  message.set_protocol_version(fabric.protocol_version);
  message.set_address_format(fabric.address_format);
  message.set_shared_layout(fabric.shared_layout);
  return message;
}

FabricIdentity FromProto(const v1::FabricIdentity& message) {
  return FabricIdentity{message.provider(), message.protocol(), message.protocol_version(),
                        message.address_format(), message.shared_layout()};
}

// The numbers are the same.
v1::DataAuth ToProto(DataAuth auth) { return static_cast<v1::DataAuth>(auth); }

absl::StatusOr<DataAuth> FromProto(v1::DataAuth auth) {
  // Whatever number the other side sent.
  if (auth < v1::DATA_AUTH_OFF || auth > v1::DATA_AUTH_FULL) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_auth has the unknown value ", static_cast<int>(auth)));
  }
  return static_cast<DataAuth>(auth);
}

v1::Notification ToProto(Notification notification) {
  switch (notification) {
    case Notification::kAuto:
      return v1::NOTIFICATION_AUTO;
    case Notification::kWriteImm:
      return v1::NOTIFICATION_WRITE_IMM;
    case Notification::kSendAfterWrite:
      return v1::NOTIFICATION_SEND_AFTER_WRITE;
  }
  return v1::NOTIFICATION_UNSPECIFIED;
}

absl::StatusOr<Notification> FromProto(v1::Notification notification, bool allow_auto) {
  switch (notification) {
    case v1::NOTIFICATION_AUTO:
      if (allow_auto) return Notification::kAuto;
      return absl::InvalidArgumentError(
          "notification is \"auto\"; here it must be \"write_imm\" or \"send_after_write\"");
    case v1::NOTIFICATION_WRITE_IMM:
      return Notification::kWriteImm;
    case v1::NOTIFICATION_SEND_AFTER_WRITE:
      return Notification::kSendAfterWrite;
    default:  // whatever number the other side sent
      return absl::InvalidArgumentError(
          absl::StrCat("notification has the unknown value ", static_cast<int>(notification)));
  }
}

v1::RequestState ToProto(RequestState state) {
  switch (state) {
    case RequestState::kNotArrived:
      return v1::REQUEST_STATE_NOT_ARRIVED;
    case RequestState::kInHand:
      return v1::REQUEST_STATE_IN_HAND;
    case RequestState::kAnswered:
      return v1::REQUEST_STATE_ANSWERED;
  }
  return v1::REQUEST_STATE_UNSPECIFIED;
}

absl::StatusOr<RequestState> FromProto(v1::RequestState state) {
  switch (state) {
    case v1::REQUEST_STATE_NOT_ARRIVED:
      return RequestState::kNotArrived;
    case v1::REQUEST_STATE_IN_HAND:
      return RequestState::kInHand;
    case v1::REQUEST_STATE_ANSWERED:
      return RequestState::kAnswered;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a request's state has the unknown value ", static_cast<int>(state)));
  }
}

v1::GetWorkerInfoReply ToProto(const WorkerInfo& info) {
  v1::GetWorkerInfoReply message;
  message.set_protocol_version(info.protocol_versions.newest);
  message.set_oldest_protocol_version(info.protocol_versions.oldest);
  message.set_software_version(info.software_version);
  for (const FabricOffer& offer : info.fabrics) {
    v1::FabricOffer* fabric = message.add_fabrics();
    *fabric->mutable_identity() = ToProto(offer.identity);
    fabric->set_source_address(offer.source_address);
    fabric->set_same_host_only(offer.same_host_only);
  }
  for (const UnservedFabric& fabric : info.unserved) {
    v1::UnservedFabric* unserved = message.add_unserved();
    unserved->set_provider(fabric.provider);
    unserved->set_reason(PrintableText(fabric.reason, kMaxReasonBytes));
  }
  message.set_notification(ToProto(info.notification));
  message.set_window_bytes(info.window_bytes);
  message.set_executors(info.executors);
  message.set_host_identity(info.host_identity);
  message.set_incarnation(info.incarnation);
  message.set_draining(info.draining);
  *message.mutable_functions() = ToProto(info.functions);
  v1::Capacity* capacity = message.mutable_capacity();
  capacity->set_cores(info.capacity.cores);
  capacity->set_free_cores(info.capacity.free_cores);
  capacity->set_memory_bytes(info.capacity.memory_bytes);
  capacity->set_free_memory_bytes(info.capacity.free_memory_bytes);
  capacity->set_allow_upload(info.capacity.allow_upload);
  capacity->set_python(info.capacity.python);
  capacity->set_waiting(info.capacity.waiting);
  message.set_data_auth(ToProto(info.data_auth));
  return message;
}

absl::StatusOr<WorkerInfo> FromProto(const v1::GetWorkerInfoReply& message) {
  WorkerInfo info;
  info.protocol_versions.newest = message.protocol_version();
  info.protocol_versions.oldest = message.oldest_protocol_version() == 0
                                      ? message.protocol_version()
                                      : message.oldest_protocol_version();
  // Another version's fields may mean something else.
  if (const auto agreed = AgreeOnVersion(info.protocol_versions, {}); !agreed.ok()) {
    return agreed.status();
  }
  info.software_version = message.software_version();
  absl::Status status = GetOffers(message, &info.fabrics);
  status.Update(GetNotification(message.notification(), /*allow_auto=*/true, &info.notification));
  status.Update(GetDataAuth(message.data_auth(), &info.data_auth));
  if (!status.ok()) return status;
  for (const v1::UnservedFabric& fabric : message.unserved()) {
    if (info.unserved.size() == kMaxFabrics) break;
    info.unserved.push_back({PrintableText(fabric.provider(), kMaxReasonBytes),
                             PrintableText(fabric.reason(), kMaxReasonBytes)});
  }
  info.window_bytes = message.window_bytes();
  info.executors = message.executors();
  info.host_identity = message.host_identity();
  info.incarnation = message.incarnation();
  info.draining = message.draining();
  info.functions = FromProto(message.functions());
  const v1::Capacity& capacity = message.capacity();
  info.capacity = {capacity.cores(),        capacity.free_cores(),
                   capacity.memory_bytes(), capacity.free_memory_bytes(),
                   capacity.allow_upload(), capacity.python(),
                   capacity.waiting()};
  return info;
}

google::protobuf::RepeatedPtrField<v1::Function> ToProto(
    const std::vector<FunctionInfo>& functions) {
  google::protobuf::RepeatedPtrField<v1::Function> messages;
  messages.Reserve(static_cast<int>(functions.size()));
  for (const FunctionInfo& function : functions) {
    v1::Function* message = messages.Add();
    message->set_name(function.name);
    message->set_doc(function.doc);
    message->set_signature(function.signature);
  }
  return messages;
}

std::vector<FunctionInfo> FromProto(
    const google::protobuf::RepeatedPtrField<v1::Function>& messages) {
  std::vector<FunctionInfo> functions;
  functions.reserve(static_cast<size_t>(messages.size()));
  for (const v1::Function& message : messages) {
    functions.push_back({message.name(), message.doc(), message.signature()});
  }
  return functions;
}

v1::OpenSessionRequest ToProto(uint64_t lease, const OpenSessionRequest& request) {
  v1::OpenSessionRequest message;
  message.set_lease(lease);
  message.set_protocol_version(request.protocol_version);
  *message.mutable_fabric() = ToProto(request.fabric);
  SetAddress(request.endpoint_address, message.mutable_endpoint_address());
  SetWindow(request.response_window, message.mutable_response_window());
  message.set_window_bytes(request.window_bytes);
  message.set_first_sequence(request.first_sequence);
  message.set_response_session(request.response_session);
  message.set_notification(ToProto(request.notification));
  message.set_downgrade_reason(PrintableText(request.downgrade_reason, kMaxReasonBytes));
  message.set_eager_bytes(request.eager_bytes);
  message.set_executor(request.executor);
  message.set_session_token(request.session_token);
  message.set_data_auth(ToProto(request.data_auth));
  return message;
}

absl::StatusOr<OpenSessionRequest> FromProto(const v1::OpenSessionRequest& message) {
  OpenSessionRequest request;
  request.protocol_version = message.protocol_version();
  // Another version's fields may mean something else: CheckCompatible refuses it by this one.
  if (request.protocol_version < kOldestProtocolVersion ||
      request.protocol_version > kProtocolVersion) {
    return request;
  }
  request.fabric = FromProto(message.fabric());
  request.response_window = GetWindow(message.response_window());
  request.window_bytes = message.window_bytes();
  request.first_sequence = message.first_sequence();
  request.downgrade_reason = PrintableText(message.downgrade_reason(), kMaxReasonBytes);
  request.eager_bytes = message.eager_bytes();
  request.executor = message.executor();
  request.session_token = message.session_token();
  absl::Status status = GetAddress(message.endpoint_address(), &request.endpoint_address);
  status.Update(
      GetSessionNumber("response_session", message.response_session(), &request.response_session));
  status.Update(
      GetNotification(message.notification(), /*allow_auto=*/true, &request.notification));
  status.Update(GetDataAuth(message.data_auth(), &request.data_auth));
  if (!status.ok()) return status;
  return request;
}

v1::OpenSessionReply ToProto(const OpenSessionReply& reply) {
  v1::OpenSessionReply message;
  message.set_handle(reply.handle);
  message.set_executor(reply.executor);
  SetAddress(reply.endpoint_address, message.mutable_endpoint_address());
  SetWindow(reply.request_window, message.mutable_request_window());
  message.set_request_session(reply.request_session);
  message.set_epoch(reply.epoch);
  message.set_notification(ToProto(reply.notification));
  message.set_eager_bytes(reply.eager_bytes);
  if (reply.data_auth != DataAuth::kOff) {
    message.set_data_auth(ToProto(reply.data_auth));
    message.set_request_tag_key(reply.data_keys.request.data(), kDataKeyBytes);
    message.set_response_tag_key(reply.data_keys.response.data(), kDataKeyBytes);
  }
  *message.mutable_functions() = ToProto(reply.functions);
  return message;
}

absl::StatusOr<OpenSessionReply> FromProto(const v1::OpenSessionReply& message) {
  OpenSessionReply reply;
  reply.handle = message.handle();
  reply.executor = message.executor();
  reply.request_window = GetWindow(message.request_window());
  reply.epoch = message.epoch();
  reply.eager_bytes = message.eager_bytes();
  reply.functions = FromProto(message.functions());
  absl::Status status = GetAddress(message.endpoint_address(), &reply.endpoint_address);
  status.Update(
      GetSessionNumber("request_session", message.request_session(), &reply.request_session));
  status.Update(GetNotification(message.notification(), /*allow_auto=*/false, &reply.notification));
  status.Update(GetDataAuth(message.data_auth(), &reply.data_auth));
  if (reply.data_auth != DataAuth::kOff) {
    status.Update(
        GetDataKey("request_tag_key", message.request_tag_key(), &reply.data_keys.request));
    status.Update(
        GetDataKey("response_tag_key", message.response_tag_key(), &reply.data_keys.response));
  }
  if (!status.ok()) return status;
  return reply;
}

}  // namespace invoker::bootstrap
