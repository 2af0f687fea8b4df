// Client: calls whose input or output is in registered windows.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/invoke/call_fate.h"
#include "src/invoke/client/registered_window_state.h"
#include "src/invoke/registered_window.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {
namespace {

// For the output's length, or for what a failed call has to say.
constexpr uint32_t kResponseBytes = 512;

absl::Status NotSent(std::string message) {
  return WithFate(absl::InvalidArgumentError(message), CallFate::kNotSent);
}

absl::Status TooLateToSend() {
  return absl::DeadlineExceededError("the timeout passed while the memory was being registered");
}

absl::Status CheckPlace(absl::string_view what, uint64_t offset, uint64_t length,
                        const RegisteredWindow& window) {
  if (length <= window.size() && offset <= window.size() - length) return absl::OkStatus();
  return NotSent(absl::StrCat("an ", what, " of ", length, " bytes at ", offset,
                              " does not lie in its window of ", window.size(), " bytes"));
}

absl::StatusOr<BulkResult> ToResult(absl::StatusOr<Response> response, const BulkOutput& output) {
  if (!response.ok()) return response.status();
  BulkResult result;
  if (output.window == nullptr) {
    result.size = response->size();
    result.response = *std::move(response);
    return result;
  }
  if (response->size() != kBulkResultBytes) {
    return absl::DataLossError(
        absl::StrCat("the worker answered a bulk call with ", response->size(), " bytes"));
  }
  memcpy(&result.size, response->data().data(), sizeof(result.size));
  if (result.size > output.capacity) {
    return absl::DataLossError(absl::StrCat("the worker says that it has written ", result.size,
                                            " bytes where ", output.capacity, " were allowed"));
  }
  return result;
}

}  // namespace

struct Client::BulkRequest {
  ClientSession::Request request;
  std::vector<std::byte> payload;  // the request's input
  std::shared_ptr<WindowUse> use;  // nullptr of a call without windows

  // The call has been started, or could not be.
  void Started(CallDriver* driver) {
    if (use != nullptr) driver->RunLocked([this] { use->starting = false; });
  }
};

absl::Status Client::MakeBulk(const RemoteFunction& function, const BulkInput& input,
                              const BulkOutput& output, const CallOptions& options,
                              BulkRequest* bulk) const {
  for (const RegisteredWindow* window : {input.window, output.window}) {
    if (window != nullptr && (window->state_ == nullptr || window->state_->driver != driver_)) {
      return NotSent("the window belongs to another client");
    }
  }
  // A call as any other: the worker gets access to nothing.
  if (input.window == nullptr && output.window == nullptr) {
    return MakeFlaggedRequest(function.id(), input.bytes, /*flags=*/0, /*busy=*/nullptr, options,
                              &bulk->request);
  }
  BulkDescriptor descriptor;
  if (input.window != nullptr) {
    if (input.window->access() == WindowAccess::kWrite) {
      return NotSent("the input's window has not been registered to be read");
    }
    absl::Status status = CheckPlace("input", input.offset, input.length, *input.window);
    if (!status.ok()) return status;
    descriptor.input_window = input.window->state_->number;
    descriptor.input_offset = input.offset;
    descriptor.input_length = input.length;
  }
  CallOptions with_capacity = options;
  if (output.window != nullptr) {
    if (output.window->access() == WindowAccess::kRead) {
      return NotSent("the output's window has not been registered to be written");
    }
    absl::Status status = CheckPlace("output", output.offset, output.capacity, *output.window);
    if (!status.ok()) return status;
    descriptor.output_window = output.window->state_->number;
    descriptor.output_offset = output.offset;
    descriptor.output_capacity = output.capacity;
    with_capacity.response_capacity = kResponseBytes;
  }
  const Bytes bytes = input.window == nullptr ? input.bytes : Bytes();
  bulk->payload.resize(kBulkDescriptorBytes + bytes.size());
  EncodeBulkDescriptor(descriptor, bulk->payload.data());
  std::copy(bytes.begin(), bytes.end(), bulk->payload.begin() + kBulkDescriptorBytes);
  bulk->use = std::make_shared<WindowUse>();
  absl::Status status = MakeFlaggedRequest(function.id(), bulk->payload, kBulk, &bulk->use->busy,
                                           with_capacity, &bulk->request);
  if (!status.ok()) return status;
  driver_->RunLocked([&] {
    for (const RegisteredWindow* window : {input.window, output.window}) {
      if (window == nullptr) continue;
      std::vector<std::shared_ptr<WindowUse>>& uses = window->state_->uses;
      uses.erase(std::remove_if(uses.begin(), uses.end(),
                                [](const std::shared_ptr<WindowUse>& use) {
                                  return !use->busy && !use->starting;
                                }),
                 uses.end());
      uses.push_back(bulk->use);
      ++bulk->use->holders;
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<BulkResult> Client::InvokeBulk(const RemoteFunction& function,
                                              const BulkInput& input, const BulkOutput& output,
                                              const CallOptions& options) {
  BulkRequest bulk;
  absl::Status status = MakeBulk(function, input, output, options, &bulk);
  if (!status.ok()) return status;
  absl::StatusOr<Response> response = driver_->Run(bulk.request);
  bulk.Started(driver_.get());
  return ToResult(std::move(response), output);
}

BulkFuture Client::InvokeBulkAsync(const RemoteFunction& function, const BulkInput& input,
                                   const BulkOutput& output, const CallOptions& options) {
  BulkRequest bulk;
  absl::Status status = MakeBulk(function, input, output, options, &bulk);
  Future future = StartAsync(status, bulk.request);
  if (status.ok()) bulk.Started(driver_.get());
  return BulkFuture(std::move(future), output);
}

absl::StatusOr<BulkResult> BulkFuture::Get() { return ToResult(future_.Get(), output_); }

absl::StatusOr<uint64_t> Client::InvokeLarge(const RemoteFunction& function, Bytes input,
                                             absl::Span<std::byte> output,
                                             const CallOptions& options) {
  const bool input_fits = input.size() <= max_payload() - kBulkDescriptorBytes;
  const bool output_fits = output.size() <= max_payload();
  const CallDeadline deadline(options.timeout);
  const auto not_registered = [&deadline](const absl::Status& status) {
    return WithFate(deadline.passed() ? TooLateToSend() : status, CallFate::kNotSent);
  };
  absl::StatusOr<RegisteredWindow> input_window = absl::NotFoundError("none");
  absl::StatusOr<RegisteredWindow> output_window = absl::NotFoundError("none");
  BulkInput from;
  BulkOutput to;
  CallOptions with_capacity = options;
  if (input_fits) {
    from.bytes = input;
  } else {
    // Nobody writes to what is registered to be read.
    input_window = RegisterWindowWithin(const_cast<std::byte*>(input.data()), input.size(),
                                        WindowAccess::kRead, deadline.left());
    if (!input_window.ok()) return not_registered(input_window.status());
    from = {&*input_window, 0, input.size(), {}};
  }
  if (output_fits) {
    // None at all would mean the default.
    with_capacity.response_capacity = static_cast<uint32_t>(std::max<size_t>(output.size(), 1));
  } else {
    output_window =
        RegisterWindowWithin(output.data(), output.size(), WindowAccess::kWrite, deadline.left());
    if (!output_window.ok()) return not_registered(output_window.status());
    to = {&*output_window, 0, output.size()};
  }
  with_capacity.timeout = deadline.left();
  if (with_capacity.timeout <= absl::ZeroDuration()) return not_registered(absl::OkStatus());
  absl::StatusOr<BulkResult> result;
  if (input_fits && output_fits) {
    result = ToResult(Invoke(function, input, with_capacity), to);
  } else {
    result = InvokeBulk(function, from, to, with_capacity);
  }
  if (!result.ok()) return result.status();
  if (!result->response.has_value()) return result->size;
  if (result->size > output.size()) {
    return WithFate(
        absl::ResourceExhaustedError(absl::StrCat("the response needs ", result->size,
                                                  " bytes; `output` has ", output.size())),
        CallFate::kExecuted);
  }
  const Bytes bytes = result->response->data();
  std::copy(bytes.begin(), bytes.end(), output.begin());
  return result->size;
}

}  // namespace invoker
