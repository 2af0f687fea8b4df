// The completion queue. A read makes progress on every endpoint that is bound to it first: that is
// the "poll" that everything late is counted in.

#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "tests/contract_providers/core/endpoint.h"
#include "tests/contract_providers/core/objects.h"
#include "tests/contract_providers/core/stubs.h"

namespace contract {
namespace {

// How long a blocking read sleeps between two looks.
constexpr auto kLook = std::chrono::microseconds(100);

size_t EntryBytes(enum fi_cq_format format) {
  switch (format) {
    case FI_CQ_FORMAT_MSG:
      return sizeof(fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
      return sizeof(fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
      return sizeof(fi_cq_tagged_entry);
    default:
      return sizeof(fi_cq_entry);
  }
}

// Each format is the one before it and more.
void Write(const Completion& completion, size_t bytes, void* out) {
  fi_cq_tagged_entry entry = {};
  entry.op_context = completion.context;
  entry.flags = completion.flags;
  entry.len = completion.length;
  entry.buf = completion.buffer;
  entry.data = completion.data;
  memcpy(out, &entry, bytes);
}

ssize_t ReadLocked(CompletionQueue* cq, void* buffer, size_t count, fi_addr_t* sources) {
  const size_t bytes = EntryBytes(cq->format);
  for (Endpoint* endpoint : cq->endpoints) endpoint->ProgressLocked();
  if (cq->entries.empty()) return -FI_EAGAIN;
  if (cq->entries.front().error != 0) return -FI_EAVAIL;
  size_t taken = 0;
  while (taken < count && !cq->entries.empty() && cq->entries.front().error == 0) {
    Write(cq->entries.front(), bytes, static_cast<char*>(buffer) + taken * bytes);
    if (sources != nullptr) sources[taken] = cq->entries.front().source;
    cq->entries.pop_front();
    ++taken;
  }
  return static_cast<ssize_t>(taken);
}

ssize_t ReadFrom(fid_cq* handle, void* buffer, size_t count, fi_addr_t* sources) {
  auto* cq = ObjectOf<CompletionQueue>(handle);
  std::lock_guard<std::mutex> lock(cq->domain->lock);
  return ReadLocked(cq, buffer, count, sources);
}

ssize_t Read(fid_cq* handle, void* buffer, size_t count) {
  return ReadFrom(handle, buffer, count, nullptr);
}

ssize_t ReadError(fid_cq* handle, fi_cq_err_entry* out, uint64_t) {
  auto* cq = ObjectOf<CompletionQueue>(handle);
  std::lock_guard<std::mutex> lock(cq->domain->lock);
  if (cq->entries.empty() || cq->entries.front().error == 0) return -FI_EAGAIN;
  const Completion& completion = cq->entries.front();
  *out = {};
  out->op_context = completion.context;
  out->flags = completion.flags;
  out->len = completion.length;
  out->data = completion.data;
  out->olen = completion.missing;
  out->err = completion.error;
  out->prov_errno = completion.error;
  cq->entries.pop_front();
  return 1;
}

ssize_t WaitFrom(fid_cq* handle, void* buffer, size_t count, fi_addr_t* sources, const void*,
                 int timeout_ms) {
  auto* cq = ObjectOf<CompletionQueue>(handle);
  if (cq->wait == FI_WAIT_NONE) return -FI_ENOSYS;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  std::unique_lock<std::mutex> lock(cq->domain->lock);
  while (true) {
    const ssize_t code = ReadLocked(cq, buffer, count, sources);
    if (code != -FI_EAGAIN) return code;
    if (cq->signaled) {
      cq->signaled = false;
      return -FI_EAGAIN;
    }
    if (timeout_ms >= 0 && std::chrono::steady_clock::now() >= end) return -FI_EAGAIN;
    cq->domain->changed.wait_for(lock, kLook);
  }
}

ssize_t Wait(fid_cq* handle, void* buffer, size_t count, const void* condition, int timeout_ms) {
  return WaitFrom(handle, buffer, count, nullptr, condition, timeout_ms);
}

int Signal(fid_cq* handle) {
  auto* cq = ObjectOf<CompletionQueue>(handle);
  if (cq->wait == FI_WAIT_NONE) return -FI_ENOSYS;
  std::lock_guard<std::mutex> lock(cq->domain->lock);
  cq->signaled = true;
  cq->domain->changed.notify_all();
  return 0;
}

const char* ErrorText(fid_cq*, int provider_error, const void*, char* buffer, size_t length) {
  const char* text = fi_strerror(provider_error);
  if (buffer != nullptr && length > 0) {
    strncpy(buffer, text, length - 1);
    buffer[length - 1] = '\0';
    return buffer;
  }
  return text;
}

int Control(fid* handle, int command, void* argument) {
  auto* cq = ObjectOf<CompletionQueue>(handle);
  if (command != FI_GETWAIT || cq->event_fd < 0) return -FI_ENOSYS;
  *static_cast<int*>(argument) = cq->event_fd;
  return 0;
}

int Close(fid* handle) {
  auto* cq = ObjectOf<CompletionQueue>(handle);
  {
    std::lock_guard<std::mutex> lock(cq->domain->lock);
    if (!cq->endpoints.empty()) return -FI_EBUSY;
    --cq->domain->children;
  }
  if (cq->event_fd >= 0) close(cq->event_fd);
  delete cq;
  return 0;
}

}  // namespace

void CompletionQueue::PushLocked(const Completion& completion) {
  entries.push_back(completion);
  if (event_fd >= 0) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_fd, &one, sizeof(one));
  }
  if (wait != FI_WAIT_NONE) domain->changed.notify_all();
}

int OpenCompletionQueue(fid_domain* handle, fi_cq_attr* attributes, fid_cq** result,
                        void* context) {
  auto* domain = ObjectOf<Domain>(handle);
  const WaitRule& rule = domain->contract->wait;
  const enum fi_wait_obj wait = attributes->wait_obj;
  const bool served = wait == FI_WAIT_NONE || (wait == FI_WAIT_UNSPEC && rule.unspec) ||
                      (wait == FI_WAIT_FD && rule.fd);
  if (!served) return rule.refused_wait_error;
  if (attributes->format > FI_CQ_FORMAT_TAGGED) return -FI_EINVAL;
  if (attributes->size < domain->contract->minimum_cq_entries) {
    attributes->size = domain->contract->minimum_cq_entries;
  }
  static fi_ops base_ops = [] {
    fi_ops table = {};
    table.size = sizeof(table);
    table.close = Close;
    table.control = Control;
    StubAll(&table.bind, &table.ops_open, &table.tostr, &table.ops_set);
    return table;
  }();
  static fi_ops_cq ops = [] {
    fi_ops_cq table = {};
    table.size = sizeof(table);
    table.read = Read;
    table.readfrom = ReadFrom;
    table.readerr = ReadError;
    table.sread = Wait;
    table.sreadfrom = WaitFrom;
    table.signal = Signal;
    table.strerror = ErrorText;
    return table;
  }();
  auto cq = std::make_unique<CompletionQueue>();
  cq->domain = domain;
  cq->format = attributes->format;
  cq->wait = wait;
  if (wait == FI_WAIT_FD) {
    cq->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (cq->event_fd < 0) return -FI_ENOMEM;
  }
  cq->handle = {};
  cq->handle.fid.fclass = FI_CLASS_CQ;
  cq->handle.fid.context = context;
  cq->handle.fid.ops = &base_ops;
  cq->handle.ops = &ops;
  std::lock_guard<std::mutex> lock(domain->lock);
  ++domain->children;
  // Somebody must move what a sleeper waits for.
  if (wait == FI_WAIT_FD) domain->StartHelperLocked();
  *result = &cq.release()->handle;
  return 0;
}

}  // namespace contract
