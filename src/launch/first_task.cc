#include "src/launch/first_task.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/cluster/cluster_address.h"
#include "src/launch/labels.h"
#include "src/launch/meeting.h"
#include "src/launch/monotonic.h"
#include "src/launch/worker_program.h"
#include "src/log/log.h"
#include "src/security/watched_file.h"

namespace invoker::launch {
namespace {

// For the other tasks' workers to drain, after this one's.
constexpr absl::Duration kOthersLimit = absl::Seconds(15);
constexpr absl::Duration kEtcdLimit = absl::Seconds(3);
constexpr char kClusterName[] = "job";

ClusterCredentials CredentialsOf(const std::optional<JobCertificate>& job) {
  ClusterCredentials credentials;
  if (!job.has_value()) return credentials;
  credentials.tls_ca = job->certificate;
  credentials.tls_cert = job->certificate;
  credentials.tls_key = job->key;
  return credentials;
}

}  // namespace

FirstTask::FirstTask(const UpOptions& options, const SlurmStep& step, std::string folder,
                     int signal_fd)
    : options_(options),
      step_(step),
      folder_(std::move(folder)),
      signal_fd_(signal_fd),
      wait_until_(MonotonicNow() + options.wait),
      meeting_path_(MeetingPath(options.folder, step.id)),
      cluster_(options.cluster) {}

FirstTask::~FirstTask() {
  watch_.reset();
  if (listener_.socket.valid()) unlink(meeting_path_.c_str());
}

absl::StatusOr<int> FirstTask::Run() {
  absl::Status status = Start();
  while (status.ok() && (program_ == nullptr || !program_->AwaitEnd(absl::ZeroDuration()))) {
    Await();
    if (program_ == nullptr && signalled_ != 0) break;
    if (program_ == nullptr) status = StartProgramOnceReady();
  }
  Finish();
  if (!status.ok()) return status;
  return program_ == nullptr ? 128 + signalled_ : program_->Wait();
}

absl::Status FirstTask::Start() {
  const std::string address = NodeAddress(options_, step_, EtcdHost(options_));
  if (cluster_.empty()) {
    absl::Status status = StartCluster(address);
    if (!status.ok()) return status;
  }
  absl::StatusOr<Listener> listener = ListenAt(address);
  if (!listener.ok()) return listener.status();
  Meeting meeting = {cluster_, listener->address, "", ""};
  if (certificate_.has_value()) {
    absl::StatusOr<std::string> certificate = security::ReadWholeFile(
        "the job's certificate", certificate_->certificate, security::Secrecy::kPublic);
    if (!certificate.ok()) return certificate.status();
    absl::StatusOr<std::string> key =
        security::ReadWholeFile("the job's key", certificate_->key, security::Secrecy::kSecret);
    if (!key.ok()) return key.status();
    meeting.certificate = *std::move(certificate);
    meeting.key = *std::move(key);
  }
  absl::Status status = WriteMeeting(meeting_path_, meeting);
  if (!status.ok()) return status;
  listener_ = *std::move(listener);
  status = FollowMembers();
  if (!status.ok()) return status;
  const absl::StatusOr<ProgramSettings> worker = WorkerProgram(
      options_, step_, address, cluster_, certificate_.has_value() ? &*certificate_ : nullptr);
  if (!worker.ok()) return worker.status();
  absl::StatusOr<std::unique_ptr<Program>> started = Program::Start(*worker);
  if (!started.ok()) return started.status();
  worker_ = *std::move(started);
  return absl::OkStatus();
}

absl::Status FirstTask::StartCluster(const std::string& address) {
  absl::StatusOr<JobCertificate> certificate = MakeJobCertificate(folder_, address);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<PrivateEtcd> etcd = StartPrivateEtcd(folder_, address, *certificate);
  if (!etcd.ok()) return etcd.status();
  certificate_ = *std::move(certificate);
  etcd_ = *std::move(etcd);
  cluster_ = cluster::FormatEtcdAddress({{etcd_.endpoint}, kClusterName});
  return absl::OkStatus();
}

absl::Status FirstTask::FollowMembers() {
  members_changed_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!members_changed_.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("eventfd: ", strerror(errno)));
  }
  absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> watch =
      cluster::MemberWatch::Start(cluster_, CredentialsOf(certificate_));
  if (!watch.ok()) return watch.status();
  watch_ = *std::move(watch);
  watch_->Follow([this](const std::vector<cluster::Member>& members) {
    workers_ = static_cast<size_t>(
        std::count_if(members.begin(), members.end(), [this](const cluster::Member& member) {
          const auto label = member.labels.find(kStepLabel);
          return label != member.labels.end() && label->second == step_.id;
        }));
    eventfd_write(members_changed_.get(), 1);
  });
  return absl::OkStatus();
}

absl::Status FirstTask::StartProgramOnceReady() {
  const size_t workers = workers_;
  // A worker that has ended will not register.
  const bool alone = step_.nodes == 1 && worker_->AwaitEnd(absl::ZeroDuration());
  const bool late = alone || MonotonicNow() >= wait_until_;
  if (workers < step_.nodes && !late) return absl::OkStatus();
  if (workers == 0) {
    return absl::UnavailableError(
        "no worker has registered in the cluster; the messages above say why");
  }
  if (workers < step_.nodes) {
    LogWarning(absl::StrCat("starting with ", workers, " of ", step_.nodes,
                            " workers; the others may still come"));
  }
  ProgramSettings settings;
  settings.command = options_.program;
  if (certificate_.has_value()) settings.variables = certificate_->ForClient();
  settings.variables["INVOKER_CLUSTER"] = cluster_;
  settings.variables["INVOKER_SERVER"] = cluster_;
  absl::StatusOr<std::unique_ptr<Program>> started = Program::Start(settings);
  if (!started.ok()) return started.status();
  program_ = *std::move(started);
  // From here on the program follows the members, if it wants to.
  watch_.reset();
  return absl::OkStatus();
}

void FirstTask::Await() {
  const auto end_of = [](const std::unique_ptr<Program>& program) {
    return program == nullptr || program->AwaitEnd(absl::ZeroDuration()) ? -1 : program->end_fd();
  };
  pollfd events[] = {{signal_fd_, POLLIN, 0},
                     {listener_.socket.get(), POLLIN, 0},
                     {members_changed_.get(), POLLIN, 0},
                     {end_of(worker_), POLLIN, 0},
                     {end_of(etcd_.program), POLLIN, 0},
                     {end_of(program_), POLLIN, 0}};
  int patience_ms = -1;
  if (program_ == nullptr) {
    const absl::Duration left = wait_until_ - MonotonicNow();
    patience_ms = static_cast<int>(
        absl::ToInt64Milliseconds(std::clamp(left, absl::ZeroDuration(), absl::Hours(24))) + 1);
  }
  if (poll(events, std::size(events), patience_ms) <= 0) return;
  if (events[0].revents != 0) OnSignal();
  if (events[1].revents != 0) {
    UniqueFd other(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (other.valid()) others_.push_back(std::move(other));
  }
  if (events[2].revents != 0) {
    eventfd_t changes;
    eventfd_read(members_changed_.get(), &changes);
  }
  if (events[3].revents != 0) {
    LogError(absl::StrCat("the worker of this node has ended, with status ", worker_->Wait()));
  }
  if (events[4].revents != 0) {
    LogError(absl::StrCat("etcd of this job has ended, with status ", etcd_.program->Wait(),
                          "; calls go on, and no worker joins"));
  }
}

void FirstTask::OnSignal() {
  signalfd_siginfo signal;
  if (read(signal_fd_, &signal, sizeof(signal)) != sizeof(signal)) return;
  signalled_ = static_cast<int>(signal.ssi_signo);
  if (program_ != nullptr) program_->Signal(signalled_);
  worker_->Signal(SIGTERM);
}

void FirstTask::Finish() {
  watch_.reset();
  for (const UniqueFd& other : others_) shutdown(other.get(), SHUT_WR);
  listener_.socket.Reset();
  unlink(meeting_path_.c_str());
  if (worker_ != nullptr) DrainWorker(worker_.get());
  // Each closes its side once its worker has drained. etcd is there until then.
  const absl::Duration until = MonotonicNow() + kOthersLimit;
  for (const UniqueFd& other : others_) {
    const absl::Duration left = until - MonotonicNow();
    pollfd end = {other.get(), POLLIN, 0};
    poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(std::max(left, absl::Duration()))));
  }
  if (etcd_.program != nullptr) {
    etcd_.program->Signal(SIGTERM);
    etcd_.program->AwaitEnd(kEtcdLimit);
  }
}

}  // namespace invoker::launch
