#include "src/isolation/spawner/remote_executor.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/isolation/process/nanoseconds.h"

namespace invoker {

using isolation::v1::FromExecutor;
using isolation::v1::ToExecutor;

RemoteExecutor::~RemoteExecutor() {
  table_->Kill(record_.get(), KillReason::kNotNeeded);
  record_->WaitUntilEnded();
}

absl::StatusOr<std::vector<bootstrap::FunctionInfo>> RemoteExecutor::Functions() {
  if (absl::Status status = record_->WaitUntilReady(); !status.ok()) return status;
  return record_->Functions();
}

absl::StatusOr<std::vector<bootstrap::FunctionInfo>> RemoteExecutor::Load(const std::string& path,
                                                                          CodeKind kind,
                                                                          const std::string& name) {
  // The process may be another user's, or see another /tmp.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return absl::NotFoundError(absl::StrCat("cannot open \"", path, "\": ", strerror(errno)));
  }
  ToExecutor request;
  // The executor stands in another directory. A path that cannot be had is opened by descriptor.
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  request.mutable_load()->set_path(error ? path : absolute.string());
  request.mutable_load()->set_kind(kind == CodeKind::kPython ? bootstrap::v1::CODE_KIND_PYTHON
                                                             : bootstrap::v1::CODE_KIND_LIBRARY);
  request.mutable_load()->set_name(name);
  // A library's constructors run, or a pickle's.
  record_->BeginLoad();
  table_->Wake();
  absl::StatusOr<FromExecutor> answer = record_->Call(std::move(request), {file.get()});
  if (!answer.ok()) return answer.status();
  std::vector<bootstrap::FunctionInfo> functions =
      bootstrap::FromProto(answer->functions().functions());
  record_->SetFunctions(functions);
  return functions;
}

absl::StatusOr<bootstrap::OpenSessionReply> RemoteExecutor::OpenSession(
    const bootstrap::OpenSessionRequest& request) {
  ToExecutor message;
  *message.mutable_open_session() = bootstrap::ToProto(/*lease=*/0, request);
  message.set_tenant(request.tenant);
  if (request.filter != nullptr) {
    isolation::v1::FunctionFilter* filter = message.mutable_function_filter();
    filter->set_later_ones(request.filter->later_ones());
    for (size_t id = 0; id < request.filter->size(); ++id) {
      filter->mutable_allowed()->push_back(
          request.filter->Allows(static_cast<uint16_t>(id)) ? '\1' : '\0');
    }
  }
  absl::StatusOr<FromExecutor> answer = record_->Call(std::move(message), {});
  if (!answer.ok()) return answer.status();
  absl::StatusOr<bootstrap::OpenSessionReply> reply = bootstrap::FromProto(answer->open_session());
  if (!reply.ok()) {
    return absl::InternalError(
        absl::StrCat("the executor's answer makes no sense: ", reply.status().message()));
  }
  // From its first session on, functions may run.
  record_->AddSessions(1);
  table_->Wake();
  return reply;
}

absl::Status RemoteExecutor::SwitchNotification(uint64_t handle, Notification notification,
                                                absl::string_view reason) {
  ToExecutor request;
  request.mutable_switch_notification()->set_handle(handle);
  request.mutable_switch_notification()->set_notification(bootstrap::ToProto(notification));
  request.mutable_switch_notification()->set_reason(std::string(reason));
  return record_->Call(std::move(request), {}).status();
}

absl::StatusOr<bootstrap::RequestState> RemoteExecutor::FindRequest(uint64_t handle,
                                                                    uint64_t sequence) {
  ToExecutor request;
  request.mutable_find_request()->set_handle(handle);
  request.mutable_find_request()->set_sequence(sequence);
  absl::StatusOr<FromExecutor> answer = record_->Call(std::move(request), {});
  if (!answer.ok()) return answer.status();
  return bootstrap::FromProto(answer->request_state());
}

absl::Status RemoteExecutor::CloseSession(uint64_t handle) {
  ToExecutor request;
  request.mutable_close_session()->set_handle(handle);
  absl::Status status = record_->Call(std::move(request), {}).status();
  if (status.ok()) record_->AddSessions(-1);
  return status;
}

absl::StatusOr<uint16_t> RemoteExecutor::RegisterWindow(uint64_t handle,
                                                        const bootstrap::WindowDescriptor& window,
                                                        bool readable, bool writable) {
  ToExecutor request;
  bootstrap::v1::RegisterWindowRequest* message = request.mutable_register_window();
  message->set_handle(handle);
  message->mutable_window()->set_base(window.base);
  message->mutable_window()->set_length(window.length);
  message->mutable_window()->set_key(window.key);
  message->set_readable(readable);
  message->set_writable(writable);
  absl::StatusOr<FromExecutor> answer = record_->Call(std::move(request), {});
  if (!answer.ok()) return answer.status();
  if (answer->window() == 0 || answer->window() > UINT16_MAX) {
    return absl::InternalError(absl::StrCat("the executor's process gave the window the number ",
                                            answer->window(), ", which no window has"));
  }
  return static_cast<uint16_t>(answer->window());
}

absl::Status RemoteExecutor::ForgetWindow(uint64_t handle, uint16_t number) {
  ToExecutor request;
  request.mutable_forget_window()->set_handle(handle);
  request.mutable_forget_window()->set_number(number);
  return record_->Call(std::move(request), {}).status();
}

ExecutorUsage RemoteExecutor::Usage() const {
  const UsageCounters counters = record_->page().watch.usage().Read();
  ExecutorUsage usage;
  usage.calls = counters.calls;
  usage.function_time = absl::Nanoseconds(static_cast<int64_t>(counters.function_ns));
  usage.polling_time = absl::Nanoseconds(static_cast<int64_t>(counters.polling_ns));
  usage.bytes_in = counters.bytes_in;
  usage.bytes_out = counters.bytes_out;
  return usage;
}

DropCounters RemoteExecutor::Dropped() const {
  DropCounters dropped;
  LoadShared(record_->page().watch.dropped(), &dropped);
  return dropped;
}

bootstrap::FunctionTable RemoteExecutor::FunctionUsage() const {
  const std::vector<bootstrap::FunctionInfo> functions = record_->Functions();
  bootstrap::FunctionTable table;
  record_->page().function_meters.ForEach(
      record_->Providers(),
      [&](const std::string& provider, uint16_t id, const bootstrap::FunctionCounts& counts) {
        table.Add(id < functions.size() ? functions[id].name : "", provider, counts);
      });
  return table;
}

void RemoteExecutor::Drain() {
  ToExecutor message;
  message.mutable_drain();
  record_->Tell(message);
}

void RemoteExecutor::Stop(absl::Duration limit) {
  ToExecutor message;
  message.mutable_stop()->set_limit_ns(ToNanoseconds(limit));
  record_->SetStopLimit(limit);
  record_->Tell(message);
  table_->Wake();
}

}  // namespace invoker
