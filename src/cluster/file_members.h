// The members in a file, which is read again when it changes.

#ifndef INVOKER_SRC_CLUSTER_FILE_MEMBERS_H_
#define INVOKER_SRC_CLUSTER_FILE_MEMBERS_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "src/cluster/member_watch.h"
#include "src/security/watched_file.h"

namespace invoker::cluster {

// Looks at the file once a second: on a file system that machines share, no event tells of what
// another one writes.
class FileMembers final : public MemberWatch {
 public:
  // `address` is "file:///PATH". A file that is missing or wrong is read again when it has changed.
  static absl::StatusOr<std::unique_ptr<MemberWatch>> Start(absl::string_view address);
  ~FileMembers() override;

 private:
  FileMembers(std::string path);

  void Run();
  void Read();

  const std::string path_;
  security::FileStamp stamp_;
  absl::Notification stop_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace invoker::cluster

#endif  // INVOKER_SRC_CLUSTER_FILE_MEMBERS_H_
