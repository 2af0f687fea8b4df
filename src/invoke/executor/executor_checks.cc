// Executor: its endpoints, for EndpointWatch.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "src/invoke/executor/executor.h"

namespace invoker {

template <typename Answer>
std::optional<Answer> Executor::AskThread(absl::Duration limit, std::function<Answer()> ask) {
  struct Question {
    absl::Notification answered;
    std::optional<Answer> answer;
  };
  const auto question = std::make_shared<Question>();
  const bool runs = RunLater([question, ask = std::move(ask)] {
    question->answer = ask();
    question->answered.Notify();
  });
  if (!runs || !question->answered.WaitForNotificationWithTimeout(limit)) return std::nullopt;
  return std::move(question->answer);
}

std::vector<std::shared_ptr<ExecutorEndpoint>> Executor::OpenPorts() const {
  std::vector<std::shared_ptr<ExecutorEndpoint>> ports;
  for (const std::unique_ptr<EndpointSet>& line : lines_) {
    std::shared_ptr<ExecutorEndpoint> port = line->current();
    if (port->open() && port->healthy()) ports.push_back(std::move(port));
  }
  return ports;
}

std::optional<Executor::Activity> Executor::ExpectCheck(
    const std::shared_ptr<ExecutorEndpoint>& port, uint64_t nonce, absl::Duration limit) {
  return AskThread<Activity>(limit, [this, port, nonce] {
    port->reactor()->ExpectCheck(nonce);
    shared_.rearrange = true;
    return ActivityOf(*port);
  });
}

std::optional<Executor::Activity> Executor::ActivityOf(
    const std::shared_ptr<ExecutorEndpoint>& port, absl::Duration limit) {
  return AskThread<Activity>(limit, [port] { return ActivityOf(*port); });
}

Executor::Activity Executor::ActivityOf(const ExecutorEndpoint& port) {
  const ExecutorCounters counters = port.Counters();
  return {port.reactor()->counters().turns, counters.executed + counters.refused};
}

std::optional<std::string> Executor::ReplaceSilent(const std::shared_ptr<ExecutorEndpoint>& port,
                                                   const absl::Status& reason, bool end_sessions,
                                                   absl::Duration limit) {
  return AskThread<std::string>(limit, [this, port, reason, end_sessions]() -> std::string {
    for (const std::unique_ptr<EndpointSet>& line : lines_) {
      // A session that was opened meanwhile may have replaced it, for another reason.
      if (line->current() != port || !port->healthy()) continue;
      absl::StatusOr<std::string> replaced = line->ReplaceSilent(reason, end_sessions);
      return replaced.ok() ? *std::move(replaced) : std::string(replaced.status().message());
    }
    return "";
  });
}

std::optional<bool> Executor::CloseSettled(absl::Duration limit) {
  struct Settled {
    std::vector<std::shared_ptr<ExecutorEndpoint>> closed;
    bool rest = false;
  };
  // They close here, with the answer, so that no call waits for it.
  const std::optional<Settled> settled = AskThread<Settled>(limit, [this] {
    Settled answer;
    for (const std::unique_ptr<EndpointSet>& line : lines_) {
      line->TakeClosed(&answer.closed);
      answer.rest |= line->settling();
    }
    return answer;
  });
  if (!settled.has_value()) return std::nullopt;
  if (!settled->closed.empty()) inbox_.AwaitWakers();
  return settled->rest;
}

}  // namespace invoker
