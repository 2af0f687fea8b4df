#include "src/transport/completion_queue.h"

#include "src/transport/status.h"

namespace invoker::transport {

absl::StatusOr<CompletionQueue> CompletionQueue::Open(const Fabric& fabric, const Domain& domain,
                                                      size_t entries) {
  const bool wants_fd = fabric.profile().wait == WaitMethod::kFd;
  fi_cq_attr attributes = {};
  attributes.size = entries;
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = wants_fd ? FI_WAIT_FD : FI_WAIT_NONE;
  fid_cq* raw = nullptr;
  int code = fi_cq_open(domain.get(), &attributes, &raw, nullptr);
  if (code != 0) return ToStatus("fi_cq_open", code);
  FidPtr<fid_cq> cq(raw);
  int fd = -1;
  if (wants_fd) {
    code = fi_control(&cq->fid, FI_GETWAIT, &fd);
    if (code != 0) return ToStatus("fi_control(FI_GETWAIT)", code);
  }
  return CompletionQueue(std::move(cq), fabric.get(), fd);
}

bool CompletionQueue::ReadError(CompletionError* error) {
  fi_cq_err_entry entry = {};
  if (fi_cq_readerr(cq_.get(), &entry, 0) <= 0) return false;
  error->context = entry.op_context;
  error->flags = entry.flags;
  error->code = entry.err;
  char text[256] = "";
  const char* words =
      fi_cq_strerror(cq_.get(), entry.prov_errno, entry.err_data, text, sizeof(text));
  error->text = words == nullptr ? "" : words;
  return true;
}

bool CompletionQueue::Armed() {
  fid* object = &cq_->fid;
  return fi_trywait(fabric_, &object, 1) == FI_SUCCESS;
}

}  // namespace invoker::transport
