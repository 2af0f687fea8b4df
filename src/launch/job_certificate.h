// A job's own certificate: every part of the job shows it to the others, and trusts no other one.

#ifndef INVOKER_SRC_LAUNCH_JOB_CERTIFICATE_H_
#define INVOKER_SRC_LAUNCH_JOB_CERTIFICATE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker::launch {

struct JobCertificate {
  std::string certificate;  // paths of files with PEM
  std::string key;

  // The names of variables with which workers and clients use it, towards each other and etcd.
  std::map<std::string, std::string> ForWorker() const;
  std::map<std::string, std::string> ForClient() const;
};

// Makes one in `folder`, which is this user's alone, for etcd at `address`. Runs openssl.
absl::StatusOr<JobCertificate> MakeJobCertificate(const std::string& folder,
                                                  const std::string& address);

// Puts one that another task has made into `folder`.
absl::StatusOr<JobCertificate> StoreJobCertificate(const std::string& folder,
                                                   absl::string_view certificate,
                                                   absl::string_view key);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_JOB_CERTIFICATE_H_
