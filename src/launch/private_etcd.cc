#include "src/launch/private_etcd.h"

#include <fcntl.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/base/unique_fd.h"
#include "src/launch/listener.h"

namespace invoker::launch {
namespace {

constexpr int kTries = 3;  // another program may take the port meanwhile
constexpr absl::Duration kStartLimit = absl::Seconds(20);
constexpr absl::Duration kPeriod = absl::Milliseconds(20);
// etcd talks to its other members, of which there are none, through a socket in its folder.
constexpr char kPeer[] = "unix://peer:0";

std::string LogIn(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  if (all.size() > 2000) all = all.substr(all.size() - 2000);
  return std::string(absl::StripAsciiWhitespace(all));
}

absl::StatusOr<std::unique_ptr<Program>> Start(const std::string& folder,
                                               const bootstrap::HostPort& endpoint,
                                               const JobCertificate& certificate) {
  const std::string log = absl::StrCat(folder, "/etcd.log");
  const UniqueFd output(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const std::string url = absl::StrCat("https://", bootstrap::FormatHostPort(endpoint));
  ProgramSettings settings;
  settings.command = {"etcd",
                      "--name=job",
                      absl::StrCat("--data-dir=", folder, "/etcd"),
                      absl::StrCat("--listen-client-urls=", url),
                      absl::StrCat("--advertise-client-urls=", url),
                      absl::StrCat("--listen-peer-urls=", kPeer),
                      absl::StrCat("--initial-advertise-peer-urls=", kPeer),
                      absl::StrCat("--initial-cluster=job=", kPeer),
                      absl::StrCat("--cert-file=", certificate.certificate),
                      absl::StrCat("--key-file=", certificate.key),
                      absl::StrCat("--trusted-ca-file=", certificate.certificate),
                      "--client-cert-auth"};
  settings.folder = folder;
  settings.output = output.get();
  settings.errors = output.get();
  absl::StatusOr<std::unique_ptr<Program>> program = Program::Start(settings);
  if (!program.ok()) {
    return absl::NotFoundError(
        absl::StrCat(program.status().message(),
                     "; install it (Debian: etcd-server), or name a cluster with --cluster"));
  }
  for (absl::Duration waited; waited < kStartLimit; waited += kPeriod) {
    if (bootstrap::TryConnect(endpoint, kPeriod).ok()) return program;
    if ((*program)->AwaitEnd(kPeriod)) break;
  }
  return absl::UnavailableError(absl::StrCat("etcd does not start: ", LogIn(log)));
}

}  // namespace

absl::StatusOr<PrivateEtcd> StartPrivateEtcd(const std::string& folder, const std::string& address,
                                             const JobCertificate& certificate) {
  absl::Status failure;
  for (int i = 0; i < kTries; ++i) {
    PrivateEtcd etcd;
    {
      const absl::StatusOr<Listener> free = ListenAt(address);
      if (!free.ok()) return free.status();
      etcd.endpoint = free->address;
    }
    absl::StatusOr<std::unique_ptr<Program>> program = Start(folder, etcd.endpoint, certificate);
    if (program.ok()) {
      etcd.program = *std::move(program);
      return etcd;
    }
    failure = program.status();
    if (absl::IsNotFound(failure)) break;
  }
  return failure;
}

}  // namespace invoker::launch
