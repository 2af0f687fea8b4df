// A completion queue of data entries, with the wait object that is asked for, or with none where
// the provider does not open it so. Driver thread only, but for file_descriptor(), wait_method(),
// Sleep() and Signal().

#ifndef INVOKER_SRC_TRANSPORT_FABRIC_COMPLETION_QUEUE_H_
#define INVOKER_SRC_TRANSPORT_FABRIC_COMPLETION_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/transport/fabric/domain.h"

namespace invoker::transport {

// One failed operation, from fi_cq_readerr.
struct CompletionError {
  void* context = nullptr;  // the operation's; nullptr if the error belongs to none
  uint64_t flags = 0;
  int code = 0;      // positive fi_errno
  std::string text;  // the provider's own words
};

class CompletionQueue {
 public:
  // Room for `entries` completions (the provider may give more). By default, the fabric's profile
  // says how to wait.
  static absl::StatusOr<CompletionQueue> Open(const Fabric& fabric, const Domain& domain,
                                              size_t entries) {
    return Open(fabric, domain, entries, fabric.profile().wait);
  }
  static absl::StatusOr<CompletionQueue> Open(const Fabric& fabric, const Domain& domain,
                                              size_t entries, WaitMethod wanted);

  // Like fi_cq_read: the number of entries read, -FI_EAGAIN if there is none, -FI_EAVAIL if an
  // error must be fetched by ReadError, or another negative fi_errno if the queue itself is broken
  // (an overrun, for one). What ended a Sleep comes first.
  ssize_t Read(fi_cq_data_entry* entries, size_t count) {
    if (sleeper_ != nullptr && sleeper_->holds_entry.load(std::memory_order_acquire)) {
      *entries = sleeper_->entry;
      sleeper_->holds_entry.store(false, std::memory_order_release);
      return 1;
    }
    return fi_cq_read(reader_, entries, count);
  }

  // Lets the provider work, and leaves what has completed to the next Read.
  void Progress() {
    fi_cq_data_entry none;
    static_cast<void>(fi_cq_read(reader_, &none, 0));
  }

  // False if there was no error to fetch after all.
  bool ReadError(CompletionError* error);

  // Reads everything that is there, and what comes meanwhile, for nobody: before an endpoint
  // closes. Any number of entries up to a bound, so that a peer that goes on sending does not keep
  // it here.
  void ReadEmpty();

  // What the queue was really opened with: the method wanted, or kBackoff.
  WaitMethod wait_method() const { return wait_; }

  // For kFd: readable when completions wait, if Armed() said so first. Otherwise -1.
  int file_descriptor() const { return fd_; }

  // For kFd: whether it is right to sleep on the descriptor now. False: completions are there
  // already.
  bool Armed();
  // For kFd: whether the descriptor is readable.
  bool HasSignal() const;

  // For kSread: blocks until there is a completion, Signal is called, or `milliseconds` have
  // passed. One thread at a time, which need not be the driver. The entry that fi_cq_sread reads is
  // kept for the next Read.
  void Sleep(int milliseconds);

  // For kSread, any thread: ends a Sleep, or the next one if nobody sleeps. libfabric (1.17 and
  // 2.6) loses the signal if it comes while fi_cq_sread is just about to block, so sleeps must have
  // limits. False if the provider has no such call.
  bool Signal() { return fi_cq_signal(cq_.get()) == 0; }
  bool can_signal() const { return sleeper_ != nullptr && sleeper_->can_signal; }

  fid_cq* get() const { return cq_.get(); }

  // From now on it is read by way of this, which stands for it.
  void ReadThrough(fid_cq* reader) { reader_ = reader; }

 private:
  // Between the thread in Sleep, which fills it, and the driver, which empties it.
  struct Sleeper {
    std::atomic<bool> holds_entry{false};
    fi_cq_data_entry entry = {};
    bool can_signal = false;
  };

  CompletionQueue(FidPtr<fid_cq> cq, fid_fabric* fabric, WaitMethod wait, int fd)
      : cq_(std::move(cq)), reader_(cq_.get()), fabric_(fabric), wait_(wait), fd_(fd) {}

  static absl::StatusOr<CompletionQueue> OpenFor(WaitMethod wait, const Fabric& fabric,
                                                 const Domain& domain, size_t entries);

  FidPtr<fid_cq> cq_;
  fid_cq* reader_;
  fid_fabric* fabric_;
  WaitMethod wait_;
  int fd_;
  std::unique_ptr<Sleeper> sleeper_;  // for kSread
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_FABRIC_COMPLETION_QUEUE_H_
