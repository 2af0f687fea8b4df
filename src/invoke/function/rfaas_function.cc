#include "src/invoke/function/rfaas_function.h"

#include <cstdio>

namespace invoker {

int64_t CallRfaasFunction(invoker_call* call) {
  const auto* rfaas = static_cast<const RfaasFunction*>(call->context);
  if (call->input_size > UINT32_MAX) {
    std::snprintf(call->error, call->error_capacity,
                  "an rFaaS function takes at most %u bytes; the call has %llu", UINT32_MAX,
                  static_cast<unsigned long long>(call->input_size));
    return INVOKER_FAILED;
  }
  // The input lies in the request window, which is this process's to write.
  const uint32_t written = rfaas->function(const_cast<void*>(call->input),
                                           static_cast<uint32_t>(call->input_size), call->output);
  if (written <= call->output_capacity) return written;
  if (rfaas->on_overrun != nullptr) {
    rfaas->on_overrun(rfaas->name.c_str(), written, call->output_capacity);
  }
  std::snprintf(call->error, call->error_capacity,
                "the rFaaS function wrote %u bytes into room for %llu: memory of its process is "
                "damaged; give calls of it more room for the response",
                written, static_cast<unsigned long long>(call->output_capacity));
  return INVOKER_FAILED;
}

}  // namespace invoker
