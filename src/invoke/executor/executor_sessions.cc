// Executor: sessions and endpoints, at the request of other threads.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/invoke/executor/executor.h"
#include "src/invoke/wire/message_authenticator.h"

namespace invoker {
namespace {

absl::Status SessionHasEnded() { return absl::NotFoundError("the session has ended"); }

}  // namespace

absl::StatusOr<bootstrap::OpenSessionReply> Executor::OpenSession(
    size_t fabric, const bootstrap::OpenSessionRequest& request, Notification notification,
    std::shared_ptr<UsageMeter> meter) {
  const absl::Status draining = absl::UnavailableError("the worker is shutting down");
  if (shared_.draining.load(std::memory_order_relaxed)) return draining;
  EndpointSet& set = ForNewSession(fabric);
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
  // Goes round again when an endpoint that takes no more sessions has been replaced, or when
  // endpoints have been closed whose addresses can be used again.
  bool again = true;
  while (again) {
    again = false;
    const std::shared_ptr<ExecutorEndpoint> endpoint = set.current();
    if (absl::Status status = endpoint->Open(); !status.ok()) return status;
    std::vector<std::shared_ptr<ExecutorEndpoint>> released;
    std::string note;
    thread_.Run([&] {
      if (shared_.draining.load(std::memory_order_relaxed)) {
        reply = draining;
        return;
      }
      for (const std::unique_ptr<EndpointSet>& each : endpoints_.sets()) {
        each->TakeReleasable(&released);
      }
      again = set.current() != endpoint;
      if (again) return;
      if (absl::Status full = endpoint->TakesSessions(); !full.ok()) {
        absl::StatusOr<std::string> replaced = set.Replace(full);
        again = replaced.ok() || !released.empty();
        if (!replaced.ok()) reply = replaced.status();
        note = replaced.ok() ? *std::move(replaced) : std::string(replaced.status().message());
        return;
      }
      // One after the other on this thread, so that the next session takes the place of one that is
      // refused. Elsewhere that place would be a gap for good.
      absl::StatusOr<transport::HostBuffer> window =
          endpoint->reactor()->AllocateTarget(request.window_bytes);
      if (!window.ok()) {
        reply = window.status();
        return;
      }
      reply = endpoint->OpenSession(request, notification, *std::move(window), *std::move(staging),
                                    data_keys, std::move(meter));
      if (reply.ok()) {
        const SessionKey key{reply->request_session, reply->epoch, static_cast<uint16_t>(fabric)};
        lent_.Add(key, endpoint->Find(key)->windows());
      }
      awaits_first_ = true;
    });
    // These close on this thread, so that no call waits for it.
    if (!released.empty()) thread_.AwaitWakers();
    if (!note.empty() && options_.on_endpoint) options_.on_endpoint(note);
  }
  return reply;
}

absl::Status Executor::SwitchNotification(SessionKey key, Notification notification) {
  absl::Status status = SessionHasEnded();
  thread_.Run([&] {
    if (ExecutorEndpoint* endpoint = endpoints_.Find(key); endpoint != nullptr) {
      endpoint->Find(key)->SetNotification(notification);
      status = absl::OkStatus();
    }
  });
  return status;
}

absl::StatusOr<bootstrap::RequestState> Executor::FindRequest(SessionKey key, uint64_t sequence) {
  if (thread_.finished()) return SessionHasEnded();
  return search_.Ask(key, sequence, *shared_.watch, RequestSearch::kPatience, [this] {
    // One task is enough for all threads that ask while a function runs.
    if (!woken_.exchange(true)) thread_.RunLater([this] { woken_.exchange(false); });
  });
}

void Executor::CloseSessionLater(SessionKey key, std::function<void()> closed) {
  const bool runs = thread_.RunLater([this, key, closed] {
    if (ExecutorEndpoint* endpoint = endpoints_.Find(key); endpoint != nullptr) {
      endpoint->EndSession(key.number);
    }
    closed();
  });
  if (!runs) closed();
}

absl::Status Executor::CloseSession(SessionKey key) {
  absl::Status status = SessionHasEnded();
  thread_.Run([&] {
    if (ExecutorEndpoint* endpoint = endpoints_.Find(key); endpoint != nullptr) {
      endpoint->EndSession(key.number);
      status = absl::OkStatus();
    }
  });
  return status;
}

absl::StatusOr<uint16_t> Executor::RegisterWindow(SessionKey key,
                                                  const bootstrap::WindowDescriptor& window,
                                                  bool readable, bool writable) {
  const std::shared_ptr<SessionWindows> windows = lent_.Find(key);
  if (windows == nullptr) return SessionHasEnded();
  return windows->Register(window, readable, writable);
}

absl::Status Executor::ForgetWindow(SessionKey key, uint16_t number) {
  const std::shared_ptr<SessionWindows> windows = lent_.Find(key);
  const std::shared_ptr<ClientWindow> window =
      windows == nullptr ? nullptr : windows->Revoke(number);
  if (window == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("the session has no window ", number, ", or has ended"));
  }
  // Transfers may need the client to take part. So no thread waits here: the client asks again.
  if (!window->AwaitQuiet(absl::ZeroDuration())) {
    return absl::DeadlineExceededError(
        absl::StrCat("transfers of window ", number, " are under way"));
  }
  windows->Remove(number);
  return absl::OkStatus();
}

std::vector<std::shared_ptr<ExecutorEndpoint>> Executor::OpenEndpoints() const {
  std::vector<std::shared_ptr<ExecutorEndpoint>> open;
  for (const std::unique_ptr<EndpointSet>& set : endpoints_.sets()) {
    std::shared_ptr<ExecutorEndpoint> endpoint = set->current();
    if (endpoint->open() && endpoint->healthy()) open.push_back(std::move(endpoint));
  }
  return open;
}

std::optional<Executor::Activity> Executor::ActivityOf(
    const std::shared_ptr<ExecutorEndpoint>& endpoint, absl::Duration limit) {
  return thread_.Ask<Activity>(limit, [endpoint]() -> Activity {
    const ExecutorCounters counters = endpoint->Counters();
    return {endpoint->reactor()->counters().turns, counters.executed + counters.refused};
  });
}

std::optional<Executor::Activity> Executor::ExpectCheck(
    const std::shared_ptr<ExecutorEndpoint>& endpoint, uint64_t nonce, absl::Duration limit) {
  const bool runs = thread_.RunLater([this, endpoint, nonce] {
    endpoint->reactor()->ExpectCheck(nonce);
    shared_.rearrange = true;
  });
  // Tasks run in their order.
  return runs ? ActivityOf(endpoint, limit) : std::nullopt;
}

std::optional<std::string> Executor::ReplaceSilent(
    const std::shared_ptr<ExecutorEndpoint>& endpoint, const absl::Status& reason,
    bool end_sessions, absl::Duration limit) {
  return thread_.Ask<std::string>(limit, [this, endpoint, reason, end_sessions]() -> std::string {
    for (const std::unique_ptr<EndpointSet>& set : endpoints_.sets()) {
      // A session that was opened meanwhile may have replaced it, for another reason.
      if (set->current() != endpoint || !endpoint->healthy()) continue;
      absl::StatusOr<std::string> replaced = set->ReplaceSilent(reason, end_sessions);
      return replaced.ok() ? *std::move(replaced) : std::string(replaced.status().message());
    }
    return "";
  });
}

std::optional<bool> Executor::ReleaseSettled(absl::Duration limit) {
  struct Settled {
    std::vector<std::shared_ptr<ExecutorEndpoint>> released;
    bool rest = false;
  };
  // The endpoints close on this thread, with the answer, so that no call waits for it.
  const std::optional<Settled> settled = thread_.Ask<Settled>(limit, [this] {
    Settled answer;
    for (const std::unique_ptr<EndpointSet>& set : endpoints_.sets()) {
      set->TakeReleasable(&answer.released);
      answer.rest |= set->has_retired();
    }
    return answer;
  });
  if (!settled.has_value()) return std::nullopt;
  if (!settled->released.empty()) thread_.AwaitWakers();
  return settled->rest;
}

}  // namespace invoker
