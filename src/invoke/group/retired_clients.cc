#include "src/invoke/group/retired_clients.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "src/base/start_thread.h"
#include "src/invoke/connect/connection.h"

namespace invoker {
namespace {

// How often to look whether callbacks have run: at first, and after a while.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(250);

}  // namespace

RetiredClients::~RetiredClients() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void RetiredClients::Add(ExecutorLoads::Session session, std::shared_ptr<Client> client) {
  absl::MutexLock lock(&mutex_);
  open_.push_back({session, ++added_, std::move(client)});
  // Without a thread all stay until the next one comes, or the group goes.
  if (!thread_.joinable()) transport::StartThread(&thread_, [this] { Run(); }).IgnoreError();
  changed_.SignalAll();
}

std::vector<std::shared_ptr<CallDriver>> RetiredClients::drivers() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<CallDriver>> drivers;
  for (const Retired& retired : open_) drivers.push_back(retired.client->connection().driver());
  return drivers;
}

std::optional<RetiredClients::Retired> RetiredClients::Next() {
  absl::MutexLock lock(&mutex_);
  absl::Duration pause = kFirstPause;
  while (!stop_) {
    const auto unused = std::find_if(open_.begin(), open_.end(), [this](const Retired& one) {
      return !loads_->InUse(one.session);
    });
    if (unused != open_.end()) {
      Retired retired = std::move(*unused);
      open_.erase(unused);
      return retired;
    }
    changed_.WaitWithTimeout(&mutex_, open_.empty() ? absl::InfiniteDuration() : pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  return std::nullopt;
}

void RetiredClients::Run() {
  while (std::optional<Retired> retired = Next()) {
    retired->client->Close();
    const auto [before, first] =
        closed_.try_emplace(retired->session.executor(), *std::move(retired));
    if (!first && retired->number > before->second.number) before->second = *std::move(retired);
  }
}

}  // namespace invoker
