#include "src/python/native/calls/native_group.h"

#include <algorithm>
#include <utility>

#include "src/invoke/connect/connection.h"
#include "src/python/native/errors.h"
#include "src/python/native/gil.h"

namespace invoker::python {

std::unique_ptr<NativeGroup> NativeGroup::Connect(const Way& way, bool reconnect) {
  if (const absl::Status status = BeginUse(); !status.ok()) Raise(status);
  ClientOptions options = way.options;
  options.reconnect = reconnect;
  absl::StatusOr<std::unique_ptr<ClientGroup>> group =
      WithoutGil([&] { return ClientGroup::Connect(way.server, options, /*sessions_each=*/1); });
  if (!group.ok()) Raise(group.status());
  return std::unique_ptr<NativeGroup>(new NativeGroup("group", *std::move(group)));
}

std::shared_ptr<ClientGroup> NativeGroup::Get() const {
  const std::shared_ptr<CallTarget> target = Target();
  return {target, &static_cast<GroupTarget&>(*target).group()};
}

std::vector<std::string> NativeGroup::Servers() const {
  const std::shared_ptr<ClientGroup> group = Get();
  std::vector<std::string> servers;
  for (size_t i = 0; i < group->size(); ++i) {
    const std::shared_ptr<Client> client = group->ShareClient(i);
    if (!client->status().ok()) continue;
    if (std::find(servers.begin(), servers.end(), client->server()) == servers.end()) {
      servers.push_back(client->server());
    }
  }
  return servers;
}

bool NativeGroup::LeasesPython() const {
  const std::shared_ptr<ClientGroup> group = Get();
  for (size_t i = 0; i < group->size(); ++i) {
    if (group->ShareClient(i)->connection().leases_python()) return true;
  }
  return false;
}

std::vector<std::unique_ptr<NativeClient>> NativeGroup::Clients() const {
  const std::shared_ptr<ClientGroup> group = Get();
  std::vector<std::unique_ptr<NativeClient>> clients;
  for (size_t i = 0; i < group->size(); ++i) {
    clients.push_back(std::make_unique<NativeClient>(group->ShareClient(i)));
  }
  return clients;
}

std::unique_ptr<NativeClient> NativeGroup::ClientOf(uint64_t session) const {
  std::shared_ptr<Client> client = Get()->ClientOf(session);
  if (client == nullptr) {
    Raise(absl::UnavailableError("the executor that has the rest of the answer was lost"));
  }
  return std::make_unique<NativeClient>(std::move(client));
}

}  // namespace invoker::python
