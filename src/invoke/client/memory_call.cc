#include "src/invoke/client/memory_call.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "invoker/call_fate.h"
#include "src/invoke/client/registered_window_state.h"
#include "src/invoke/client/request_maker.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {
namespace {

// For the output's length, or for what a failed call has to say.
constexpr uint32_t kResponseBytes = 512;

absl::Status NotSent(std::string message) {
  return WithFate(absl::InvalidArgumentError(message), CallFate::kNotSent);
}

absl::Status NotRegistered(const CallDeadline& deadline, const absl::Status& status) {
  return WithFate(
      deadline.passed()
          ? absl::DeadlineExceededError("the timeout passed while the memory was being registered")
          : status,
      CallFate::kNotSent);
}

absl::Status CheckPlace(absl::string_view what, uint64_t offset, uint64_t length,
                        const RegisteredWindow& window) {
  if (length <= window.size() && offset <= window.size() - length) return absl::OkStatus();
  return NotSent(absl::StrCat("an ", what, " of ", length, " bytes at ", offset,
                              " does not lie in its window of ", window.size(), " bytes"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryCall>> MemoryCall::Make(Client* client,
                                                             const RemoteFunction& function,
                                                             const CallInput& input,
                                                             const CallOptions& options) {
  std::unique_ptr<MemoryCall> call(new MemoryCall(client->driver_));
  absl::Status status = call->Prepare(client, function, input, options);
  if (!status.ok()) return status;
  return call;
}

absl::Status MemoryCall::Prepare(Client* client, const RemoteFunction& function,
                                 const CallInput& input, CallOptions options) {
  const CallDeadline deadline(options.timeout);
  if (options.retry != 0) return RequestMaker::NoRetry();
  absl::Status status = PlaceOutput(client, deadline, &options);
  if (status.ok()) status = PlaceInput(client, input, deadline);
  if (!status.ok()) return status;
  if (!deadline.none()) options.timeout = deadline.left();
  if (options.timeout <= absl::ZeroDuration() &&
      (own_input_.has_value() || own_output_.has_value())) {
    return NotRegistered(deadline, absl::OkStatus());
  }
  if (input_window_ != nullptr || output_.kind_ == CallOutput::Kind::kWindow) {
    return MakeWithWindows(function, options);
  }
  return RequestMaker::Make(*driver_, function.id(), input, options, &request_);
}

absl::Status MemoryCall::CheckWindow(const RegisteredWindow& window) const {
  if (window.state_ != nullptr && window.state_->driver == driver_) return absl::OkStatus();
  return NotSent("the window belongs to another client");
}

absl::Status MemoryCall::PlaceOutput(Client* client, const CallDeadline& deadline,
                                     CallOptions* options) {
  output_ = options->output;
  if (output_.kind_ == CallOutput::Kind::kMemory) {
    if (output_.capacity_ <= driver_->geometry().MaxPayload()) {
      // A capacity of 0 would mean the default.
      options->response_capacity = static_cast<uint32_t>(std::max<uint64_t>(output_.capacity_, 1));
      return absl::OkStatus();
    }
    absl::StatusOr<RegisteredWindow> window = client->RegisterWindowWithin(
        output_.memory(), output_.capacity_, WindowAccess::kWrite, deadline.left());
    if (!window.ok()) return NotRegistered(deadline, window.status());
    own_output_ = *std::move(window);
    output_ = CallOutput(*own_output_, 0, output_.capacity_);
  }
  if (output_.kind_ != CallOutput::Kind::kWindow) return absl::OkStatus();
  if (absl::Status status = CheckWindow(output_.window()); !status.ok()) return status;
  if (output_.window().access() == WindowAccess::kRead) {
    return NotSent("the output's window has not been registered to be written");
  }
  options->response_capacity = kResponseBytes;
  return CheckPlace("output", output_.offset_, output_.capacity_, output_.window());
}

absl::Status MemoryCall::PlaceInput(Client* client, const CallInput& input,
                                    const CallDeadline& deadline) {
  if (input.kind_ == CallInput::Kind::kWindow) {
    if (absl::Status status = CheckWindow(input.window()); !status.ok()) return status;
    if (input.window().access() == WindowAccess::kWrite) {
      return NotSent("the input's window has not been registered to be read");
    }
    input_window_ = &input.window();
    input_offset_ = input.offset_;
    input_length_ = input.size();
    return CheckPlace("input", input_offset_, input_length_, *input_window_);
  }
  bytes_ = input.bytes_;
  const uint64_t beside =
      output_.kind_ == CallOutput::Kind::kWindow ? uint64_t{kBulkDescriptorBytes} : 0;
  const bool fits = bytes_.size() + beside <= driver_->geometry().MaxPayload();
  // Else it is written into the request window itself.
  if (input.kind_ == CallInput::Kind::kWritten && (!fits || beside != 0)) {
    if (absl::Status status = WriteAside(input); !status.ok()) return status;
  }
  if (fits) return absl::OkStatus();
  // Nobody writes to memory that is registered to be read.
  absl::StatusOr<RegisteredWindow> window = client->RegisterWindowWithin(
      const_cast<std::byte*>(bytes_.data()), bytes_.size(), WindowAccess::kRead, deadline.left());
  if (!window.ok()) return NotRegistered(deadline, window.status());
  own_input_ = *std::move(window);
  input_window_ = &*own_input_;
  input_length_ = bytes_.size();
  bytes_ = Bytes();
  return absl::OkStatus();
}

// Puts the input together in memory of its own.
absl::Status MemoryCall::WriteAside(const CallInput& input) {
  whole_.reset(new (std::nothrow) std::byte[input.size()]);
  if (whole_ == nullptr) {
    return WithFate(absl::ResourceExhaustedError(
                        absl::StrCat("no memory for a request of ", input.size(), " bytes")),
                    CallFate::kNotSent);
  }
  bytes_ = Bytes(whole_.get(), input.size());
  input.WriteTo(whole_.get());
  return absl::OkStatus();
}

absl::Status MemoryCall::MakeWithWindows(const RemoteFunction& function,
                                         const CallOptions& options) {
  BulkDescriptor descriptor;
  if (input_window_ != nullptr) {
    descriptor.input_window = input_window_->state_->number;
    descriptor.input_offset = input_offset_;
    descriptor.input_length = input_length_;
  }
  if (output_.kind_ == CallOutput::Kind::kWindow) {
    descriptor.output_window = output_.window().state_->number;
    descriptor.output_offset = output_.offset_;
    descriptor.output_capacity = output_.capacity_;
  }
  payload_.resize(kBulkDescriptorBytes + bytes_.size());
  EncodeBulkDescriptor(descriptor, payload_.data());
  std::copy(bytes_.begin(), bytes_.end(), payload_.begin() + kBulkDescriptorBytes);
  auto use = std::make_shared<WindowUse>();
  absl::Status status = RequestMaker::Make(*driver_, function.id(), payload_, HeldCells(),
                                           &use->busy, options, &request_);
  if (!status.ok()) return status;
  request_.flags = kBulk;
  use_ = std::move(use);
  LendWindows();
  return absl::OkStatus();
}

void MemoryCall::LendWindows() {
  driver_->RunLocked([this] {
    const RegisteredWindow* const output_window =
        output_.kind_ == CallOutput::Kind::kWindow ? &output_.window() : nullptr;
    for (const RegisteredWindow* window : {input_window_, output_window}) {
      if (window == nullptr) continue;
      std::vector<std::shared_ptr<WindowUse>>& uses = window->state_->uses;
      uses.erase(std::remove_if(uses.begin(), uses.end(),
                                [](const std::shared_ptr<WindowUse>& use) {
                                  return !use->busy && !use->starting;
                                }),
                 uses.end());
      uses.push_back(use_);
      ++use_->holders;
    }
  });
}

void MemoryCall::Started() {
  if (use_ == nullptr) return;
  driver_->RunLocked([this] { use_->starting = false; });
}

absl::StatusOr<Response> MemoryCall::Finish(absl::StatusOr<Response> response) {
  if (response.ok() && output_.kind_ != CallOutput::Kind::kResponseWindow) {
    response = ViewOfOutput(*response);
  }
  own_input_.reset();
  own_output_.reset();
  return response;
}

absl::StatusOr<Response> MemoryCall::ViewOfOutput(const Response& response) const {
  if (output_.kind_ == CallOutput::Kind::kMemory) {
    const Bytes bytes = response.data();
    if (bytes.size() > output_.capacity_) {
      return WithFate(
          absl::ResourceExhaustedError(absl::StrCat("the response needs ", bytes.size(),
                                                    " bytes; `output` has ", output_.capacity_)),
          CallFate::kExecuted);
    }
    std::copy(bytes.begin(), bytes.end(), output_.memory());
    return Response(response.session(), Bytes(output_.memory(), bytes.size()));
  }
  if (response.size() != kBulkResultBytes) {
    return absl::DataLossError(
        absl::StrCat("the worker answered a bulk call with ", response.size(), " bytes"));
  }
  uint64_t size;
  memcpy(&size, response.data().data(), sizeof(size));
  if (size > output_.capacity_) {
    return absl::DataLossError(absl::StrCat("the worker says that it has written ", size,
                                            " bytes where ", output_.capacity_, " were allowed"));
  }
  return Response(response.session(), Bytes(output_.window().data() + output_.offset_, size));
}

}  // namespace invoker
