#include "src/launch/slurm_jobs.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "src/launch/program.h"

namespace invoker::launch {
namespace {

// A job in these states still has its place.
constexpr char kStates[] =
    "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,REQUEUED,REQUEUE_HOLD,SPECIAL_EXIT";

}  // namespace

std::string ShellWord(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

absl::StatusOr<std::vector<std::string>> SlurmJobs::List() const {
  const absl::StatusOr<std::string> said =
      RunCommand({"squeue", "--me", "--noheader", "--array", absl::StrCat("--name=", name_),
                  kStates, "--format=%i"},
                 stop_fd_);
  if (!said.ok()) return said.status();
  return absl::StrSplit(*said, absl::ByAnyChar("\n "), absl::SkipEmpty());
}

absl::StatusOr<std::string> SlurmJobs::Submit() const {
  // A job whose node is lost is replaced at once; Slurm would begin it anew after two minutes.
  std::vector<std::string> command = {"sbatch", "--parsable", "--nodes=1", "--no-requeue"};
  command.insert(command.end(), options_.begin(), options_.end());
  command.push_back(absl::StrCat("--job-name=", name_));
  command.push_back(absl::StrCat("--wrap=", script_));
  const absl::StatusOr<std::string> said = RunCommand(command, stop_fd_);
  if (!said.ok()) return said.status();
  // "ID" or "ID;CLUSTER", after warnings if there are any.
  const std::vector<std::string> lines = absl::StrSplit(absl::StripAsciiWhitespace(*said), '\n');
  const std::vector<std::string> words = absl::StrSplit(lines.back(), ';');
  return words.front();
}

absl::Status SlurmJobs::Terminate(const std::string& id) const {
  // A job that waits has no process to signal, and is taken out of the queue.
  const absl::StatusOr<std::string> removed =
      RunCommand({"scancel", "--state=PENDING", id}, stop_fd_);
  if (!removed.ok()) return removed.status();
  return RunCommand({"scancel", "--batch", "--signal=TERM", "--state=RUNNING", id}, stop_fd_)
      .status();
}

}  // namespace invoker::launch
