#include "src/python/native/calls/call_target.h"

#include <algorithm>
#include <utility>

#include "src/invoke/client/call_starter.h"
#include "src/invoke/group/group_call_starter.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker::python {

absl::StatusOr<FunctionHandle> ClientTarget::Function(const std::string& name) const {
  absl::StatusOr<RemoteFunction> function = client_->Function(name);
  if (!function.ok()) return function.status();
  return FunctionHandle{name, function->signature(), *function};
}

absl::StatusOr<Response> ClientTarget::Invoke(const FunctionHandle& function,
                                              const CallInput& input, const CallOptions& options) {
  return client_->Invoke(std::get<RemoteFunction>(function.function), input, options);
}

absl::StatusOr<CallHandle> ClientTarget::Start(const FunctionHandle& function,
                                               const CallInput& input, const CallOptions& options,
                                               CallDone& done) {
  CallTicket ticket;
  const absl::Status status = CallStarter::Start(
      *client_, std::get<RemoteFunction>(function.function), input, options, done, &ticket,
      /*comes_back=*/true);
  if (!status.ok()) return status;
  return CallHandle(ticket);
}

bool ClientTarget::Cancel(CallHandle& call) {
  return CallStarter::Cancel(*client_, std::get<CallTicket>(call));
}

bool ClientTarget::DriveUntil(absl::FunctionRef<bool()> done, int64_t deadline_ns) {
  CallStarter::DriverOf(*client_).DriveForCallbacks(done, deadline_ns);
  return true;
}

void ClientTarget::LeaveToHelper() { CallStarter::DriverOf(*client_).LeaveToHelper(); }

void ClientTarget::Close() {
  if (owned_) client_->Close();
}

absl::StatusOr<FunctionHandle> GroupTarget::Function(const std::string& name) const {
  absl::StatusOr<GroupFunction> function = group_->Function(name);
  if (!function.ok()) return function.status();
  return FunctionHandle{name, function->signature(), *function};
}

std::vector<std::string> GroupTarget::FunctionNames() const {
  std::vector<std::string> common = group_->client(0).FunctionNames();
  for (size_t i = 1; i < group_->size(); ++i) {
    const std::vector<std::string> names = group_->client(i).FunctionNames();
    const auto lacks = [&names](const std::string& name) {
      return std::find(names.begin(), names.end(), name) == names.end();
    };
    common.erase(std::remove_if(common.begin(), common.end(), lacks), common.end());
  }
  return common;
}

uint64_t GroupTarget::max_payload() const {
  uint64_t most = group_->client(0).max_payload();
  for (size_t i = 1; i < group_->size(); ++i)
    most = std::min(most, group_->client(i).max_payload());
  return most;
}

absl::StatusOr<Response> GroupTarget::Invoke(const FunctionHandle& function, const CallInput& input,
                                             const CallOptions& options) {
  return group_->Invoke(std::get<GroupFunction>(function.function), input, options);
}

absl::StatusOr<CallHandle> GroupTarget::Start(const FunctionHandle& function,
                                              const CallInput& input, const CallOptions& options,
                                              CallDone& done) {
  absl::StatusOr<GroupFuture> call =
      GroupCallStarter::Start(*group_, std::get<GroupFunction>(function.function), input,
                              /*caller_keeps_input=*/true, options, done);
  if (!call.ok()) return call.status();
  return CallHandle(*std::move(call));
}

bool GroupTarget::Cancel(CallHandle& call) { return std::get<GroupFuture>(call).Cancel(); }

}  // namespace invoker::python
