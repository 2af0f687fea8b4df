#include "src/launch/job_certificate.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "src/base/unique_fd.h"
#include "src/launch/program.h"

namespace invoker::launch {
namespace {

// Workers are at many addresses, and have this name.
constexpr char kName[] = "invoker-job";
// Longer than any job.
constexpr char kDays[] = "3650";

JobCertificate In(const std::string& folder) {
  return {absl::StrCat(folder, "/job.pem"), absl::StrCat(folder, "/job.key")};
}

absl::Status Store(const std::string& path, absl::string_view text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.valid() &&
      write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
}

std::map<std::string, std::string> ForEtcd(const JobCertificate& job) {
  return {{"INVOKER_CLUSTER_TLS_CA", job.certificate},
          {"INVOKER_CLUSTER_TLS_CERT", job.certificate},
          {"INVOKER_CLUSTER_TLS_KEY", job.key}};
}

}  // namespace

std::map<std::string, std::string> JobCertificate::ForWorker() const {
  std::map<std::string, std::string> variables = ForEtcd(*this);
  variables["INVOKER_SERVER_TLS_CERT"] = certificate;
  variables["INVOKER_SERVER_TLS_KEY"] = key;
  variables["INVOKER_SERVER_TLS_CLIENT_CA"] = certificate;
  return variables;
}

std::map<std::string, std::string> JobCertificate::ForClient() const {
  std::map<std::string, std::string> variables = ForEtcd(*this);
  variables["INVOKER_TLS_CA"] = certificate;
  variables["INVOKER_TLS_CERT"] = certificate;
  variables["INVOKER_TLS_KEY"] = key;
  variables["INVOKER_TLS_SERVER_NAME"] = kName;
  return variables;
}

absl::StatusOr<JobCertificate> MakeJobCertificate(const std::string& folder,
                                                  const std::string& address) {
  JobCertificate job = In(folder);
  const absl::StatusOr<std::string> made =
      RunCommand({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                  "ec_paramgen_curve:prime256v1", "-nodes", "-days", kDays, "-keyout", job.key,
                  "-out", job.certificate, "-subj", absl::StrCat("/CN=", kName), "-addext",
                  absl::StrCat("subjectAltName=DNS:", kName, ",IP:", address)},
                 /*stop_fd=*/-1);
  if (!made.ok()) {
    return absl::Status(made.status().code(),
                        absl::StrCat("the job's certificate: ", made.status().message()));
  }
  return job;
}

absl::StatusOr<JobCertificate> StoreJobCertificate(const std::string& folder,
                                                   absl::string_view certificate,
                                                   absl::string_view key) {
  JobCertificate job = In(folder);
  absl::Status status = Store(job.certificate, certificate);
  if (status.ok()) status = Store(job.key, key);
  if (!status.ok()) return status;
  return job;
}

}  // namespace invoker::launch
