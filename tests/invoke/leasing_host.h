// A worker whose executors may be leased although they are shared: clients hold a lease, and what
// it has is in this process. Tests override what they look into.

#ifndef INVOKER_TESTS_INVOKE_LEASING_HOST_H_
#define INVOKER_TESTS_INVOKE_LEASING_HOST_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "src/bootstrap/messages/session_host.h"
#include "src/invoke/worker/worker.h"

namespace invoker {

class LeasingHost : public bootstrap::SessionHost {
 public:
  explicit LeasingHost(Worker* worker) : worker_(worker) {}

  bootstrap::WorkerInfo Info() const override { return worker_->Info(); }
  void OpenLease(uint64_t, const LeaseTerms& terms,
                 std::shared_ptr<LeaseObserver> observer) override {
    observer->OnGranted(terms);
  }
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      uint64_t lease, const bootstrap::OpenSessionRequest& request) override {
    return worker_->OpenSession(lease, request);
  }
  absl::Status SwitchNotification(uint64_t lease, uint64_t handle, Notification notification,
                                  absl::string_view reason) override {
    return worker_->SwitchNotification(lease, handle, notification, reason);
  }
  absl::StatusOr<bootstrap::RequestState> FindRequest(uint64_t lease, uint64_t handle,
                                                      uint64_t sequence) override {
    return worker_->FindRequest(lease, handle, sequence);
  }
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t lease, uint64_t handle,
                                          const bootstrap::WindowDescriptor& window, bool readable,
                                          bool writable) override {
    return worker_->RegisterWindow(lease, handle, window, readable, writable);
  }
  absl::Status ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) override {
    return worker_->ForgetWindow(lease, handle, number);
  }
  std::vector<bootstrap::DropCount> DroppedMessages() const override {
    return worker_->DroppedMessages();
  }
  absl::Status CloseSession(uint64_t lease, uint64_t handle) override {
    return worker_->CloseSession(lease, handle);
  }
  ResourceUsage CloseLease(uint64_t lease) override { return worker_->CloseLease(lease); }

 private:
  Worker* const worker_;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_INVOKE_LEASING_HOST_H_
