// A completion queue of data entries. Driver thread only, but for file_descriptor().

#ifndef INVOKER_SRC_TRANSPORT_COMPLETION_QUEUE_H_
#define INVOKER_SRC_TRANSPORT_COMPLETION_QUEUE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "src/transport/domain.h"

namespace invoker::transport {

// One failed operation, from fi_cq_readerr.
struct CompletionError {
  void* context = nullptr;  // of the operation; nullptr if the error belongs to none
  uint64_t flags = 0;
  int code = 0;      // positive fi_errno
  std::string text;  // the provider's own words
};

class CompletionQueue {
 public:
  // Room for `entries` completions (the provider may give more).
  static absl::StatusOr<CompletionQueue> Open(const Fabric& fabric, const Domain& domain,
                                              size_t entries);

  // As fi_cq_read: the number of entries read, -FI_EAGAIN if there is none, -FI_EAVAIL if an error
  // must be fetched by ReadError, or another negative fi_errno if the queue itself is broken (an
  // overrun, for one).
  ssize_t Read(fi_cq_data_entry* entries, size_t count) {
    return fi_cq_read(cq_.get(), entries, count);
  }

  // False if there was no error to fetch after all.
  bool ReadError(CompletionError* error);

  // Readable when completions wait, if Armed() said so first. -1 where the fabric has no such
  // descriptor.
  int file_descriptor() const { return fd_; }

  // Whether it is right to sleep on the descriptor now. False: completions are there already.
  bool Armed();

  fid_cq* get() const { return cq_.get(); }

 private:
  CompletionQueue(FidPtr<fid_cq> cq, fid_fabric* fabric, int fd)
      : cq_(std::move(cq)), fabric_(fabric), fd_(fd) {}

  FidPtr<fid_cq> cq_;
  fid_fabric* fabric_;
  int fd_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_COMPLETION_QUEUE_H_
