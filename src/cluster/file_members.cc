#include "src/cluster/file_members.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/start_thread.h"
#include "src/cluster/cluster_address.h"
#include "src/log/log.h"

namespace invoker::cluster {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<MemberWatch>> FileMembers::Start(absl::string_view address) {
  absl::StatusOr<std::string> path = ParseFileAddress(address);
  if (!path.ok()) return path.status();
  std::unique_ptr<FileMembers> watch(new FileMembers(*std::move(path)));
  watch->stamp_ = security::StampOf(watch->path_);
  watch->Read();
  FileMembers* const raw = watch.get();
  absl::Status status = transport::StartThread(&raw->thread_, [raw] { raw->Run(); });
  if (!status.ok()) return status;
  return watch;
}

FileMembers::FileMembers(std::string path) : path_(std::move(path)) {}

FileMembers::~FileMembers() {
  stop_.Notify();
  if (thread_.joinable()) thread_.join();
}

void FileMembers::Run() {
  while (!stop_.WaitForNotificationWithTimeout(kPeriod)) {
    const security::FileStamp now = security::StampOf(path_);
    if (now == stamp_) continue;
    stamp_ = now;
    Read();
  }
}

void FileMembers::Read() {
  absl::StatusOr<std::string> text =
      security::ReadWholeFile("the file of members", path_, security::Secrecy::kPublic);
  absl::Status status = text.status();
  if (text.ok()) {
    const absl::StatusOr<std::vector<std::string>> servers = ParseServerFile(path_, *text);
    if (servers.ok()) return SetMembers(MembersOf(*servers));
    status = servers.status();
  }
  // The next look tries again, where the reason may not be the file.
  if (security::WorthAnotherTry(status)) stamp_ = security::FileStamp();
  LogWarning(absl::StrCat("the members that are known stay in use: ", status.message()));
  SetFailure(std::move(status));
}

}  // namespace invoker::cluster
