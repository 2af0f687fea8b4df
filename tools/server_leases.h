// What invoker_server offers beside its shared executors: leases of executors in processes of their
// own, the functions that clients upload to them, and the accounts of what they use.

#ifndef INVOKER_TOOLS_SERVER_LEASES_H_
#define INVOKER_TOOLS_SERVER_LEASES_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/accounting/server_accounting.h"
#include "src/code/blob_cache.h"
#include "src/invoke/worker/worker.h"
#include "src/lease/lease_host.h"
#include "src/lease/spawner_source.h"
#include "src/server/assembled_server.h"
#include "tools/server_options.h"

namespace invoker::tools {

class ServerLeases final : public ServerExtension {
 public:
  // `worker` outlives the leases. `on_lease_lost` is LeaseHost::Events'.
  static absl::StatusOr<std::unique_ptr<ServerLeases>> Start(const ServerSettings& settings,
                                                             Worker* worker,
                                                             LeaseHost::LeaseLost on_lease_lost);

  // Waits until executors can be leased, if the settings ask for leases.
  absl::Status Await();

  // By which people know an open lease; 0: it is not open. The id is a secret.
  uint64_t NumberOf(uint64_t lease) const { return accounting_->book()->NumberOf(lease); }

  bootstrap::SessionHost* host() override { return &host_; }
  std::vector<bootstrap::ServiceFactory> services() override;
  void Watch(Worker::SessionClosed on_session_closed, Worker::Downgraded on_downgraded) override;
  void Drain() override { host_.Drain(); }
  void Stop(absl::Duration limit) override { host_.Stop(limit); }

 private:
  ServerLeases(const ServerSettings& settings, Worker* worker, LeaseHost::LeaseLost on_lease_lost,
               std::unique_ptr<ServerAccounting> accounting, std::unique_ptr<BlobCache> cache);

  const bool asked_for_;
  const UploadPolicy upload_;
  const LeaseHost::LeaseLost on_lease_lost_;
  const std::unique_ptr<ServerAccounting> accounting_;
  const std::unique_ptr<BlobCache> cache_;  // nullptr: no uploads
  SpawnerSource spawner_;
  LeaseHost host_;  // uses all of the above
};

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_SERVER_LEASES_H_
