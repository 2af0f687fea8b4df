#include "src/invoke/group/reconnector.h"

#include <algorithm>
#include <utility>

#include "src/base/random.h"
#include "src/base/start_thread.h"

namespace invoker {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// For one step of a try: a thread that ends the group waits for it.
constexpr absl::Duration kLongestStep = absl::Seconds(1);

absl::Duration WithJitter(absl::Duration pause) {
  // Three quarters of it to five quarters.
  constexpr uint64_t kSteps = 1024;
  const uint64_t step = transport::DrawRandom().value_or(kSteps / 2) % kSteps;
  return pause * (0.75 + 0.5 * static_cast<double>(step) / kSteps);
}

}  // namespace

Reconnector::Reconnector(std::vector<std::string> servers, const ClientOptions& options,
                         Replace replace)
    : servers_(std::move(servers)), options_(options), replace_(std::move(replace)) {
  options_.times = nullptr;
  options_.connect_timeout = std::min(options_.connect_timeout, kLongestStep);
  options_.probe_timeout = std::min(options_.probe_timeout, kLongestStep);
}

absl::Status Reconnector::Start() {
  return transport::StartThread(&thread_, [this] { Run(); });
}

Reconnector::~Reconnector() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Reconnector::Lost(size_t executor) {
  if (executor >= servers_.size()) return;
  absl::MutexLock lock(&mutex_);
  lost_.push_back({executor, CallDeadline(WithJitter(kFirstPause)), kFirstPause});
  changed_.SignalAll();
}

bool Reconnector::Next(Place* place) {
  absl::MutexLock lock(&mutex_);
  while (!stop_) {
    const auto first =
        std::min_element(lost_.begin(), lost_.end(),
                         [](const Place& a, const Place& b) { return a.next_try < b.next_try; });
    if (first == lost_.end()) {
      changed_.Wait(&mutex_);
    } else if (!first->next_try.passed()) {
      changed_.WaitWithTimeout(&mutex_, first->next_try.left());
    } else {
      *place = *first;
      lost_.erase(first);
      return true;
    }
  }
  return false;
}

// False if the place is to be tried again.
bool Reconnector::Try(const Place& place) {
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(servers_[place.executor], options_);
  return client.ok() && replace_(place.executor, *std::move(client)).ok();
}

void Reconnector::Run() {
  Place place;
  while (Next(&place)) {
    if (Try(place)) continue;
    place.pause = std::min(2 * place.pause, kLongestPause);
    absl::MutexLock lock(&mutex_);
    place.next_try = CallDeadline(WithJitter(place.pause));
    lost_.push_back(place);
  }
}

}  // namespace invoker
