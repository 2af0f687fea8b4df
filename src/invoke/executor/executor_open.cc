// Executor: opening a session, and which of its endpoints has it.

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/invoke/executor/executor.h"
#include "src/invoke/wire/message_authenticator.h"

namespace invoker {
namespace {

// So many sessions make a poll without a wait object as slow as one with it.
constexpr uint32_t kFewSessions = 16;

}  // namespace

EndpointSet& Executor::LineFor(size_t fabric) const {
  EndpointSet* first = lines_[fabric].get();
  EndpointSet* second = second_lines_[fabric];
  if (second == nullptr) return *first;
  EndpointSet* hot = first->use() == transport::ReactorUse::kHot ? first : second;
  EndpointSet* other = hot == first ? second : first;
  const bool hot_is_better =
      always_hot_.load(std::memory_order_relaxed) && hot->current()->live_sessions() < kFewSessions;
  return hot->healthy() && (hot_is_better || !other->healthy()) ? *hot : *other;
}

ExecutorEndpoint* Executor::PortOf(SessionKey key) {
  for (const EndpointSet* line : {lines_[key.fabric].get(), second_lines_[key.fabric]}) {
    ExecutorEndpoint* port = line == nullptr ? nullptr : line->PortOf(key);
    if (port != nullptr) return port;
  }
  return nullptr;
}

absl::StatusOr<bootstrap::OpenSessionReply> Executor::OpenSession(
    size_t fabric, const bootstrap::OpenSessionRequest& request,
    transport::Notification notification, std::shared_ptr<UsageMeter> meter) {
  if (shared_.draining.load(std::memory_order_relaxed)) {
    return absl::UnavailableError("the worker is shutting down");
  }
  EndpointSet& line = LineFor(fabric);
  // Mapped and opened here, so that the thread only registers.
  absl::StatusOr<transport::HostBuffer> staging =
      transport::HostBuffer::Allocate(request.window_bytes);
  if (!staging.ok()) return staging.status();
  DataKeys data_keys;
  if (request.data_auth != DataAuth::kOff) {
    absl::StatusOr<DataKeys> drawn = DrawDataKeys();
    if (!drawn.ok()) return drawn.status();
    data_keys = *drawn;
  }
  absl::StatusOr<bootstrap::OpenSessionReply> reply =
      absl::UnavailableError("the executor has stopped");
  // Each time round, an endpoint that takes no more sessions has been replaced, or some have been
  // closed whose addresses can be used again.
  bool again = true;
  while (again) {
    again = false;
    const std::shared_ptr<ExecutorEndpoint> port = line.current();
    if (absl::Status status = port->Open(); !status.ok()) return status;
    std::vector<std::shared_ptr<ExecutorEndpoint>> closed;
    std::string note;
    RunOnThread([&] {
      if (shared_.draining.load(std::memory_order_relaxed)) {
        reply = absl::UnavailableError("the worker is shutting down");
        return;
      }
      for (const std::unique_ptr<EndpointSet>& each : lines_) each->TakeClosed(&closed);
      again = line.current() != port;
      if (again) return;
      if (absl::Status full = port->TakesSessions(); !full.ok()) {
        absl::StatusOr<std::string> replaced = line.Replace(full);
        again = replaced.ok() || !closed.empty();
        if (!replaced.ok()) reply = replaced.status();
        note = replaced.ok() ? *std::move(replaced) : std::string(replaced.status().message());
        return;
      }
      // One after the other, so that the place of what is refused is the next one's: elsewhere it
      // would be a gap for good.
      absl::StatusOr<transport::HostBuffer> window =
          port->reactor()->AllocateTarget(request.window_bytes);
      if (!window.ok()) {
        reply = window.status();
        return;
      }
      reply = port->OpenSession(request, notification, *std::move(window), *std::move(staging),
                                data_keys, std::move(meter));
      if (reply.ok()) {
        const SessionKey key{reply->request_session, reply->epoch, static_cast<uint16_t>(fabric)};
        lent_.Add(key, port->Find(key)->windows());
      }
      awaits_first_ = true;
    });
    // They close here, so that no call waits for it.
    if (!closed.empty()) inbox_.AwaitWakers();
    if (!note.empty() && options_.on_endpoint) options_.on_endpoint(note);
  }
  return reply;
}

}  // namespace invoker
