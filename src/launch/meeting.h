// How the tasks of a job find one another: a file, in a folder that all of them share.

#ifndef INVOKER_SRC_LAUNCH_MEETING_H_
#define INVOKER_SRC_LAUNCH_MEETING_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/messages/host_port.h"

namespace invoker::launch {

struct Meeting {
  std::string cluster;        // the address of it, for workers and the program
  bootstrap::HostPort first;  // where the first task is; its connections end with the job
  std::string certificate;    // PEM, the job's own; empty: it has none
  std::string key;            // PEM
};

// Where the tasks of a step meet.
std::string MeetingPath(const std::string& folder, absl::string_view step);

// Puts the file there, for nobody but this user. Replaces one of an earlier try.
absl::Status WriteMeeting(const std::string& path, const Meeting& meeting);

// NOT_FOUND if there is none so far. PERMISSION_DENIED if it is another user's, or if others can
// read it or write to it. INVALID_ARGUMENT for what is none.
absl::StatusOr<Meeting> ReadMeeting(const std::string& path);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_MEETING_H_
