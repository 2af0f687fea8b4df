#include "src/transport/fabric/completion_queue.h"

#include <poll.h>

#include <utility>

#include "src/transport/base/status.h"

namespace invoker::transport {
namespace {

fi_wait_obj WaitObjectOf(WaitMethod wait) {
  switch (wait) {
    case WaitMethod::kFd:
      return FI_WAIT_FD;
    case WaitMethod::kSread:
      return FI_WAIT_UNSPEC;
    case WaitMethod::kBackoff:
      break;
  }
  return FI_WAIT_NONE;
}

}  // namespace

absl::StatusOr<CompletionQueue> CompletionQueue::OpenFor(WaitMethod wait, const Fabric& fabric,
                                                         const Domain& domain, size_t entries) {
  fi_cq_attr attributes = {};
  attributes.size = entries;
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = WaitObjectOf(wait);
  fid_cq* raw = nullptr;
  int code = fi_cq_open(domain.get(), &attributes, &raw, nullptr);
  if (code != 0) return ToStatus("fi_cq_open", code);
  FidPtr<fid_cq> cq(raw);
  int fd = -1;
  if (wait == WaitMethod::kFd) {
    code = fi_control(&cq->fid, FI_GETWAIT, &fd);
    if (code != 0) return ToStatus("fi_control(FI_GETWAIT)", code);
  }
  CompletionQueue queue(std::move(cq), fabric.get(), wait, fd);
  if (wait == WaitMethod::kSread) {
    fi_cq_data_entry entry;
    const ssize_t read = fi_cq_sread(raw, &entry, 1, nullptr, 0);
    if (read == -FI_ENOSYS || read == -FI_EOPNOTSUPP) return ToStatus("fi_cq_sread", read);
    queue.sleeper_ = std::make_unique<Sleeper>();
    queue.sleeper_->can_signal = queue.Signal();
  }
  return queue;
}

absl::StatusOr<CompletionQueue> CompletionQueue::Open(const Fabric& fabric, const Domain& domain,
                                                      size_t entries, WaitMethod wanted) {
  absl::StatusOr<CompletionQueue> queue = OpenFor(wanted, fabric, domain, entries);
  if (queue.ok() || wanted == WaitMethod::kBackoff) return queue;
  // If it was not the wait object that the provider refused, this fails for the same reason.
  return OpenFor(WaitMethod::kBackoff, fabric, domain, entries);
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

void CompletionQueue::ReadEmpty() {
  // The provider's own messages show in no count, so an empty queue is asked more than once.
  constexpr int kEnoughEmptyReads = 16;
  constexpr int kMostReads = 4096;
  fi_cq_data_entry entries[16];
  CompletionError error;
  int empty = 0;
  for (int i = 0; i < kMostReads && empty < kEnoughEmptyReads; ++i) {
    const ssize_t count = Read(entries, 16);
    if (count > 0 || (count == -FI_EAVAIL && ReadError(&error))) {
      empty = 0;
    } else {
      ++empty;
    }
  }
}

bool CompletionQueue::Armed() {
  fid* object = &cq_->fid;
  return fi_trywait(fabric_, &object, 1) == FI_SUCCESS;
}

bool CompletionQueue::HasSignal() const {
  pollfd descriptor = {fd_, POLLIN, 0};
  return poll(&descriptor, 1, 0) > 0;
}

void CompletionQueue::Sleep(int milliseconds) {
  if (sleeper_->holds_entry.load(std::memory_order_acquire)) return;
  if (fi_cq_sread(cq_.get(), &sleeper_->entry, 1, nullptr, milliseconds) == 1) {
    sleeper_->holds_entry.store(true, std::memory_order_release);
  }
}

}  // namespace invoker::transport
