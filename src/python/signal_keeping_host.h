// A worker's SessionHost that leaves Python's signal handling as it is.

#ifndef INVOKER_SRC_PYTHON_SIGNAL_KEEPING_HOST_H_
#define INVOKER_SRC_PYTHON_SIGNAL_KEEPING_HOST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/bootstrap/session_host.h"
#include "src/python/signal_guard.h"

namespace invoker::python {

// Hands everything on to `host`, which outlives it. A session may be the first one on its fabric,
// and open an endpoint. Threads as for SessionHost; no GIL.
class SignalKeepingHost final : public bootstrap::SessionHost {
 public:
  explicit SignalKeepingHost(bootstrap::SessionHost* host) : host_(host) {}

  bootstrap::WorkerInfo Info() const override { return host_->Info(); }
  void OpenLease(uint64_t lease, const bootstrap::LeaseTerms& terms,
                 std::shared_ptr<LeaseObserver> observer) override {
    host_->OpenLease(lease, terms, std::move(observer));
  }
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      uint64_t lease, const bootstrap::OpenSessionRequest& request) override {
    const SignalGuard guard;
    return host_->OpenSession(lease, request);
  }
  absl::Status SwitchNotification(uint64_t lease, uint64_t handle,
                                  transport::Notification notification,
                                  absl::string_view reason) override {
    return host_->SwitchNotification(lease, handle, notification, reason);
  }
  absl::StatusOr<bootstrap::RequestState> FindRequest(uint64_t lease, uint64_t handle,
                                                      uint64_t sequence) override {
    return host_->FindRequest(lease, handle, sequence);
  }
  absl::Status CloseSession(uint64_t lease, uint64_t handle) override {
    return host_->CloseSession(lease, handle);
  }
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Load(uint64_t lease, const std::string& path,
                                                            bootstrap::CodeKind kind,
                                                            const std::string& name) override {
    return host_->Load(lease, path, kind, name);
  }
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t lease, uint64_t handle,
                                          const bootstrap::WindowDescriptor& window, bool readable,
                                          bool writable) override {
    return host_->RegisterWindow(lease, handle, window, readable, writable);
  }
  absl::Status ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) override {
    return host_->ForgetWindow(lease, handle, number);
  }
  std::vector<bootstrap::UsageRecord> GetUsage(absl::string_view tenant) override {
    return host_->GetUsage(tenant);
  }
  absl::StatusOr<bootstrap::Usage> LeaseUsage(uint64_t lease) override {
    return host_->LeaseUsage(lease);
  }
  void AbandonLease(uint64_t lease) override { host_->AbandonLease(lease); }
  std::vector<bootstrap::DropCount> DroppedMessages() const override {
    return host_->DroppedMessages();
  }
  bootstrap::Usage CloseLease(uint64_t lease) override { return host_->CloseLease(lease); }

 private:
  bootstrap::SessionHost* host_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_SIGNAL_KEEPING_HOST_H_
