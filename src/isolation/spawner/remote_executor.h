// An ExecutorProcess: requests to the process's socket, and questions to its record.

#ifndef INVOKER_SRC_ISOLATION_SPAWNER_REMOTE_EXECUTOR_H_
#define INVOKER_SRC_ISOLATION_SPAWNER_REMOTE_EXECUTOR_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/isolation/process/executor_process.h"
#include "src/isolation/spawner/executor_record.h"
#include "src/isolation/spawner/process_table.h"

namespace invoker {

class RemoteExecutor final : public ExecutorProcess {
 public:
  RemoteExecutor(std::shared_ptr<ProcessTable> table, std::shared_ptr<ExecutorRecord> record,
                 bool prestarted)
      : table_(std::move(table)), record_(std::move(record)), prestarted_(prestarted) {}
  ~RemoteExecutor() override;

  pid_t pid() const override { return record_->pid(); }
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Functions() override;
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Load(const std::string& path, CodeKind kind,
                                                            const std::string& name) override;
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      const bootstrap::OpenSessionRequest& request) override;
  absl::Status SwitchNotification(uint64_t handle, Notification notification,
                                  absl::string_view reason) override;
  absl::StatusOr<bootstrap::RequestState> FindRequest(uint64_t handle, uint64_t sequence) override;
  absl::Status CloseSession(uint64_t handle) override;
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t handle,
                                          const bootstrap::WindowDescriptor& window, bool readable,
                                          bool writable) override;
  absl::Status ForgetWindow(uint64_t handle, uint16_t number) override;
  ExecutorUsage Usage() const override;
  DropCounters Dropped() const override;
  bootstrap::FunctionTable FunctionUsage() const override;
  const ExecutorWatch& watch() const override { return record_->page().watch; }
  bool prestarted() const override { return prestarted_; }
  absl::Duration CpuTime() const override { return record_->CpuTime(); }
  void Drain() override;
  void Stop(absl::Duration limit) override;

 private:
  const std::shared_ptr<ProcessTable> table_;
  const std::shared_ptr<ExecutorRecord> record_;
  const bool prestarted_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SPAWNER_REMOTE_EXECUTOR_H_
