// A SessionHost that records what it was asked, for tests of the service in front of it.

#ifndef INVOKER_TESTS_BOOTSTRAP_FAKE_HOST_H_
#define INVOKER_TESTS_BOOTSTRAP_FAKE_HOST_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/messages/session_host.h"

namespace invoker::bootstrap {

// Generous: reached only when a test fails.
inline constexpr absl::Duration kPatience = absl::Seconds(30);

inline WorkerInfo SampleInfo() {
  WorkerInfo info;
  info.software_version = "1.2.3";
  info.fabrics = {{FabricIdentity{"shm", 5, 3, 4, 117 << 16}, "", true},
                  {FabricIdentity{"tcp;ofi_rxm", 7, 1, 2},
                   std::string("\x02\x00\xa1\x07\x7f\x00\x00\x01", 8), false}};
  info.notification = Notification::kAuto;
  info.window_bytes = 1 << 20;
  info.executors = 2;
  info.host_identity = 0xfedcba9876543210u;
  info.functions = {{"echo"}, {"thumbnail"}};
  return info;
}

inline OpenSessionRequest SampleRequest() {
  OpenSessionRequest request;
  request.fabric = SampleInfo().fabrics[1].identity;
  request.endpoint_address = std::string("\x02\x00\x00\xff\x7f\x00\x00\x01", 8);
  request.response_window = WindowDescriptor{0xffff'8000'0000'1000u, 65536, 0xffff'0000'1111'2222u};
  request.window_bytes = 65536;
  request.first_sequence = 0xffff'ffff'ffff'fff0u;
  request.response_session = 65535;
  request.notification = Notification::kSendAfterWrite;
  return request;
}

inline OpenSessionReply SampleReply() {
  OpenSessionReply reply;
  reply.handle = 0xffff'ffff'0000'0001u;
  reply.executor = 1;
  reply.endpoint_address = std::string("\x02\x00\x00\x00worker", 10);
  reply.request_window = WindowDescriptor{0, 65536, 77};
  reply.request_session = 40000;
  reply.epoch = 0xdeadbeef;
  reply.notification = Notification::kWriteImm;
  return reply;
}

inline ResourceUsage SampleUsage() {
  ResourceUsage usage;
  usage.lease_time = absl::Seconds(3);
  usage.cpu_time = absl::Milliseconds(1500);
  usage.memory_byte_seconds = uint64_t{3} << 30;
  usage.calls = 65'537;
  usage.function_time = absl::Nanoseconds(1'234'567'891);
  usage.polling_time = absl::Nanoseconds(77);
  usage.bytes_in = 0xffff'ffff'ffff'0000u;
  usage.bytes_out = 12;
  return usage;
}

class FakeHost : public SessionHost {
 public:
  static constexpr uint16_t kWindow = 5;  // each that is registered

  WorkerInfo Info() const override { return SampleInfo(); }

  absl::StatusOr<OpenSessionReply> OpenSession(uint64_t lease,
                                               const OpenSessionRequest& request) override {
    if (in_open) in_open();
    std::lock_guard<std::mutex> lock(mutex_);
    last_request = request;
    Record(absl::StrCat("open ", lease));
    return SampleReply();
  }

  absl::Status SwitchNotification(uint64_t lease, uint64_t handle, Notification notification,
                                  absl::string_view reason) override {
    std::lock_guard<std::mutex> lock(mutex_);
    Record(absl::StrCat("switch ", lease, " ", handle, " ", NotificationName(notification), " ",
                        reason));
    return Known(handle);
  }

  absl::Status CloseSession(uint64_t lease, uint64_t handle) override {
    std::lock_guard<std::mutex> lock(mutex_);
    Record(absl::StrCat("close ", lease, " ", handle));
    return Known(handle);
  }

  absl::StatusOr<uint16_t> RegisterWindow(uint64_t lease, uint64_t handle, const WindowDescriptor&,
                                          bool, bool) override {
    if (in_register) in_register();
    std::lock_guard<std::mutex> lock(mutex_);
    Record(absl::StrCat("register ", lease, " ", handle));
    return kWindow;
  }
  absl::Status ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) override {
    std::lock_guard<std::mutex> lock(mutex_);
    Record(absl::StrCat("forget ", lease, " ", handle, " ", number));
    return Known(handle);
  }

  // Leases with executors of their own wait until the test answers for the host.
  void OpenLease(uint64_t lease, const LeaseTerms& terms,
                 std::shared_ptr<LeaseObserver> observer) override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      asked_[lease] = {terms, observer};
      if (terms.executors != 0) {
        Record(absl::StrCat("open_lease ", terms.executors, " ", terms.tenant));
      }
    }
    if (terms.executors == 0) observer->OnGranted(terms);
  }

  // The lease that last asked for executors.
  uint64_t LastAsked() const {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [lease, what] : asked_) {
      if (what.terms.executors != 0) return lease;
    }
    return 0;
  }
  std::shared_ptr<LeaseObserver> ObserverOf(uint64_t lease) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return asked_.at(lease).observer;
  }

  void RetireLease(uint64_t lease) override {
    if (in_retire) in_retire();
    std::lock_guard<std::mutex> lock(mutex_);
    retired_.push_back(lease);
  }

  // In order. Not among Calls.
  std::vector<uint64_t> Retired() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return retired_;
  }

  ResourceUsage CloseLease(uint64_t lease) override {
    if (in_close) in_close();
    std::lock_guard<std::mutex> lock(mutex_);
    Record(absl::StrCat("close_lease ", lease));
    return SampleUsage();
  }

  std::vector<std::string> Calls() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }

  int Count(const std::string& call) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return CountLocked(call);
  }

  // False if `call` does not come.
  bool WaitFor(const std::string& call) const {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoSeconds(kPatience),
                             [&] { return CountLocked(call) > 0; });
  }

  std::function<void()> in_open;  // set before the server starts
  std::function<void()> in_register;
  std::function<void()> in_retire;
  std::function<void()> in_close;
  std::optional<OpenSessionRequest> last_request;

 private:
  struct Asked {
    LeaseTerms terms;
    std::shared_ptr<LeaseObserver> observer;
  };

  static absl::Status Known(uint64_t handle) {
    if (handle == SampleReply().handle) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("session ", handle, " is not of this lease"));
  }
  void Record(std::string call) {
    calls_.push_back(std::move(call));
    changed_.notify_all();
  }
  int CountLocked(const std::string& call) const {
    int count = 0;
    for (const std::string& each : calls_) count += each == call ? 1 : 0;
    return count;
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::string> calls_;
  std::vector<uint64_t> retired_;
  std::map<uint64_t, Asked> asked_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_TESTS_BOOTSTRAP_FAKE_HOST_H_
