// Values in the data stores of executors, at their client.

#ifndef INVOKER_SRC_INVOKE_CLIENT_STORED_VALUE_H_
#define INVOKER_SRC_INVOKE_CLIENT_STORED_VALUE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "invoker/client.h"
#include "invoker/client_options.h"
#include "src/invoke/wire/store_request.h"

namespace invoker {

// The executors of one lease. What is stored there refers to it, and may outlive the lease. Any
// thread.
class StorePlaces {
 public:
  // Close comes before the clients go.
  explicit StorePlaces(std::vector<Client*> clients);

  // While the lease is there.
  const std::vector<Client*>& clients() const { return clients_; }

  // Does not block, and says nothing: what cannot leave now does so later, or the lease's end frees
  // it.
  void Free(const DataId& id) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::vector<Client*> clients_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::vector<DataId>> waiting_ ABSL_GUARDED_BY(mutex_);  // to be freed, by client
};

// One value, in every executor of some leases. Any thread.
class StoredValue {
 public:
  // Sends the value, of so many bytes, which `write` puts together once. Blocks until all executors
  // have it. Of the options, timeout and interrupted count. The error is that of the first that has
  // not got it; then none keeps it.
  static absl::StatusOr<std::shared_ptr<StoredValue>> Put(
      std::vector<std::shared_ptr<StorePlaces>> places, std::string type, size_t bytes,
      absl::FunctionRef<void(std::byte*)> write, const CallOptions& options);

  ~StoredValue() { Free(); }

  const DataId& id() const { return id_; }
  const std::string& type() const { return type_; }
  size_t bytes() const { return bytes_; }
  void Free();
  bool freed() const { return freed_.load(std::memory_order_relaxed); }

 private:
  StoredValue(const DataId& id, std::string type, size_t bytes,
              std::vector<std::shared_ptr<StorePlaces>> places);
  absl::Status Send(absl::Span<const std::byte> request, const CallOptions& options);

  const DataId id_;
  const std::string type_;
  const size_t bytes_;
  const std::vector<std::shared_ptr<StorePlaces>> places_;
  std::atomic<bool> freed_{false};
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_STORED_VALUE_H_
