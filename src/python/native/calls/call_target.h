// What a call from Python goes to: a client or a group.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_CALL_TARGET_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_CALL_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "invoker/client.h"
#include "invoker/client_group.h"
#include "src/invoke/session/client_session.h"

namespace invoker::python {

// A function of a target; of no other.
struct FunctionHandle {
  std::string name;
  std::string signature;  // empty: bytes
  std::variant<RemoteFunction, GroupFunction> function;
};

// Names a call under way, for Cancel. Its target's that started it.
using CallHandle = std::variant<CallTicket, GroupFuture>;

// Any thread, without the GIL.
class CallTarget {
 public:
  virtual ~CallTarget() = default;

  // How many there are so far; more may join a group.
  virtual size_t executors() const = 0;
  // Does not block.
  virtual absl::StatusOr<FunctionHandle> Function(const std::string& name) const = 0;
  virtual std::vector<std::string> FunctionNames() const = 0;
  // The largest payload that goes through the windows of all sessions.
  virtual uint64_t max_payload() const = 0;
  // Whether Start leaves input of up to max_payload alone once it has returned.
  virtual bool copies_input() const = 0;

  // Client::Invoke.
  virtual absl::StatusOr<Response> Invoke(const FunctionHandle& function, const CallInput& input,
                                          const CallOptions& options) = 0;
  // CallStarter::Start with a callback, for a thread that comes back to DriveUntil or
  // LeaveToHelper.
  virtual absl::StatusOr<CallHandle> Start(const FunctionHandle& function, const CallInput& input,
                                           const CallOptions& options, CallDone& done) = 0;
  // Future::Cancel.
  virtual bool Cancel(CallHandle& call) = 0;
  // Drives calls until `done`, the deadline (MonotonicNs), or, early, if there is nothing to drive
  // for here. False: this target's calls are driven by threads of its own.
  virtual bool DriveUntil(absl::FunctionRef<bool()> done, int64_t deadline_ns) = 0;
  // A thread of the target's own drives from now on.
  virtual void LeaveToHelper() = 0;

  // Ends calls under way; once, by one thread. Blocks as Client::Close.
  virtual void Close() = 0;
};

class ClientTarget : public CallTarget {
 public:
  // `owned`: Close closes the client; else only lets go of it.
  ClientTarget(std::shared_ptr<Client> client, bool owned)
      : client_(std::move(client)), owned_(owned) {}

  Client& client() const { return *client_; }

  size_t executors() const override { return 1; }
  absl::StatusOr<FunctionHandle> Function(const std::string& name) const override;
  std::vector<std::string> FunctionNames() const override { return client_->FunctionNames(); }
  uint64_t max_payload() const override { return client_->max_payload(); }
  bool copies_input() const override { return true; }
  absl::StatusOr<Response> Invoke(const FunctionHandle& function, const CallInput& input,
                                  const CallOptions& options) override;
  absl::StatusOr<CallHandle> Start(const FunctionHandle& function, const CallInput& input,
                                   const CallOptions& options, CallDone& done) override;
  bool Cancel(CallHandle& call) override;
  bool DriveUntil(absl::FunctionRef<bool()> done, int64_t deadline_ns) override;
  void LeaveToHelper() override;
  void Close() override;

 private:
  const std::shared_ptr<Client> client_;
  const bool owned_;
};

class GroupTarget : public CallTarget {
 public:
  explicit GroupTarget(std::shared_ptr<ClientGroup> group) : group_(std::move(group)) {}

  ClientGroup& group() const { return *group_; }

  size_t executors() const override { return group_->size(); }
  absl::StatusOr<FunctionHandle> Function(const std::string& name) const override;
  std::vector<std::string> FunctionNames() const override;
  uint64_t max_payload() const override;
  // A worker that has been connected to again may have smaller windows.
  bool copies_input() const override { return false; }
  absl::StatusOr<Response> Invoke(const FunctionHandle& function, const CallInput& input,
                                  const CallOptions& options) override;
  absl::StatusOr<CallHandle> Start(const FunctionHandle& function, const CallInput& input,
                                   const CallOptions& options, CallDone& done) override;
  bool Cancel(CallHandle& call) override;
  bool DriveUntil(absl::FunctionRef<bool()>, int64_t) override { return false; }
  void LeaveToHelper() override {}
  void Close() override { group_->Close(); }

 private:
  const std::shared_ptr<ClientGroup> group_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_CALL_TARGET_H_
