#include "src/launch/other_task.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/unique_fd.h"
#include "src/launch/meeting.h"
#include "src/launch/monotonic.h"
#include "src/launch/program.h"
#include "src/launch/worker_program.h"
#include "src/log/log.h"

namespace invoker::launch {
namespace {

// A file system that several machines share reports no changes.
constexpr absl::Duration kPeriod = absl::Milliseconds(100);
// A first task whose machine has vanished is noticed after so many seconds.
constexpr int kIdleSeconds = 10;
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;

struct Met {
  Meeting meeting;
  UniqueFd first;  // the connection to the first task
};

// The file may be of an earlier try of this job, with nobody behind it.
absl::StatusOr<Met> Meet(const UpOptions& options, const SlurmStep& step, int signal_fd) {
  const std::string path = MeetingPath(options.folder, step.id);
  const absl::Duration until = MonotonicNow() + options.wait;
  absl::Status failure;
  while (MonotonicNow() < until) {
    absl::StatusOr<Meeting> meeting = ReadMeeting(path);
    if (meeting.ok()) {
      const absl::StatusOr<int> connected = bootstrap::OpenConnection(meeting->first, kPeriod * 10);
      if (connected.ok()) return Met{*std::move(meeting), UniqueFd(*connected)};
      failure = connected.status();
    } else {
      failure = meeting.status();
    }
    pollfd signal = {signal_fd, POLLIN, 0};
    if (poll(&signal, 1, static_cast<int>(absl::ToInt64Milliseconds(kPeriod))) > 0) {
      return absl::CancelledError("told to stop before the job has begun");
    }
  }
  return absl::DeadlineExceededError(
      absl::StrCat("this task does not find that of rank 0: ", failure.message(),
                   "; --meet names a folder that all nodes share"));
}

void WatchPeer(int fd) {
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof(kIdleSeconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds, sizeof(kProbeSeconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
}

}  // namespace

absl::Status RunOtherTask(const UpOptions& options, const SlurmStep& step,
                          const std::string& folder, int signal_fd) {
  absl::StatusOr<Met> met = Meet(options, step, signal_fd);
  if (absl::IsCancelled(met.status())) return absl::OkStatus();
  if (!met.ok()) return met.status();
  WatchPeer(met->first.get());
  const Meeting& meeting = met->meeting;
  std::optional<JobCertificate> certificate;
  if (!meeting.certificate.empty()) {
    absl::StatusOr<JobCertificate> stored =
        StoreJobCertificate(folder, meeting.certificate, meeting.key);
    if (!stored.ok()) return stored.status();
    certificate = *std::move(stored);
  }
  const absl::StatusOr<ProgramSettings> settings =
      WorkerProgram(options, step, NodeAddress(options, step, meeting.first.host), meeting.cluster,
                    certificate.has_value() ? &*certificate : nullptr);
  if (!settings.ok()) return settings.status();
  const absl::StatusOr<std::unique_ptr<Program>> worker = Program::Start(*settings);
  if (!worker.ok()) return worker.status();

  // The first task says nothing: what can be read is its end.
  pollfd events[] = {
      {signal_fd, POLLIN, 0}, {met->first.get(), POLLIN, 0}, {(*worker)->end_fd(), POLLIN, 0}};
  while (poll(events, 3, -1) < 0) {
  }
  DrainWorker(worker->get());
  if (events[0].revents == 0 && events[1].revents == 0) {
    LogError(absl::StrCat("the worker of this node has ended, with status ", (*worker)->Wait()));
  }
  return absl::OkStatus();
}

}  // namespace invoker::launch
