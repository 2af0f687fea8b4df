#include "src/transport/operations/atomic_add.h"

#include <cstring>

#include "src/transport/base/ring_message.h"

namespace invoker::transport {
namespace {

class NativeAdd final : public Notifier {
 public:
  PostResult Post(fid_ep* endpoint, Operation* operation, int* error) const override {
    // Without FI_DELIVERY_COMPLETE: on some fabrics that loses additions
    // (docs/design/libfabric.md), and the endpoint is reliable without it.
    const PostResult result =
        JudgePost(fi_atomic(endpoint, operation->staging, 1, operation->staging_descriptor,
                            operation->peer, operation->remote_address, operation->remote_key,
                            FI_UINT64, FI_SUM, &operation->contexts[0]),
                  error);
    if (result == PostResult::kPosted) {
      operation->step = Operation::Step::kDone;
      operation->completions_due = 1;
    }
    return result;
  }
  const char* what() const override { return "an atomic addition"; }
};

}  // namespace

bool GrantsNativeAdd(fid_domain* domain, fid_ep* endpoint) {
  // A provider without atomics may leave the whole table out.
  if (endpoint->atomic == nullptr) return false;
  size_t count = 0;
  if (fi_atomicvalid(endpoint, FI_UINT64, FI_SUM, &count) != 0 || count == 0) return false;
  fi_atomic_attr attributes = {};
  const int code = fi_query_atomic(domain, FI_UINT64, FI_SUM, &attributes, 0);
  // Older providers answer the first question only.
  if (code == -FI_ENOSYS) return true;
  return code == 0 && attributes.count > 0 && attributes.size == sizeof(uint64_t);
}

const Notifier* GetAdder(AddMethod method) {
  static const NativeAdd* const native = new NativeAdd;
  return method == AddMethod::kNative ? native : GetStagedSender();
}

void PrepareAdd(AddMethod method, uint64_t offset, uint64_t value, Operation* operation) {
  operation->source = operation->staging;
  if (method == AddMethod::kNative) {
    memcpy(operation->staging, &value, sizeof(value));
    operation->length = sizeof(value);
  } else {
    EncodeAdd(operation->remote_key, offset, value, operation->staging);
    operation->length = kAddMessageBytes;
  }
}

}  // namespace invoker::transport
