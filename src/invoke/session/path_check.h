// Finds out that the fabric's path between a client and its worker is broken while the bootstrap's
// is not: no provider promises to tell, and heartbeats go another way.
//
// While calls are under way and nothing has come from one look to the next, the worker is asked,
// over the bootstrap, what has become of the oldest of them. What has not arrived there, or has
// been answered and does not arrive here, while both sides look, is lost, once it has had the time
// that its bytes may take. A function that runs for long is no reason: the worker says that it has
// the request in hand.
//
// Pure logic: its owner calls it from one thread at a time, or under a lock.

#ifndef INVOKER_SRC_INVOKE_SESSION_PATH_CHECK_H_
#define INVOKER_SRC_INVOKE_SESSION_PATH_CHECK_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker {

// One look at a client's session.
struct PathView {
  uint64_t answers = 0;    // that have been taken since the session's beginning
  uint64_t turns = 0;      // in which its reactor has been polled
  bool under_way = false;  // requests that have not been answered
  uint64_t oldest = 0;     // the oldest one's sequence; only if `answers` is as known
  uint64_t bytes = 0;      // that they, and their responses, may take
};

class PathCheck {
 public:
  // The least that a fabric is taken to carry. A slower one is no reason to end a session before
  // its bytes have had their time.
  static constexpr uint64_t kLeastBytesPerSecond = 10'000'000;

  // A share of the peer timeout: how long nothing comes before a path can be called broken, and how
  // long what the worker has answered may take, beyond what the bytes take. After the failure one
  // look may still find an answer from before, the next one asks, the worker may take a tenth of a
  // second to tell, and a look comes after the patience: together less than 0.8.
  static constexpr double kPatience = 0.35;
  // A share of the patience: a look that comes later after the last one was kept from coming, by a
  // debugger or a machine that has too much to do, and what has come meanwhile is still to be
  // found. At even intervals it is 0.29.
  static constexpr double kLongestBetweenLooks = 0.6;
  // The worker is asked at every so manieth look at most. The first after an answer has come finds
  // it, and the next may ask.
  static constexpr int kLooksPerQuestion = 2;

  // For calls that are to end within that time. Look is to be called at even intervals,
  // bootstrap::kLooksPerHeartbeat times for each heartbeat.
  static PathCheck Within(absl::Duration peer_timeout) {
    return PathCheck(peer_timeout * kPatience);
  }

  // What a view may leave out: see PathView::oldest.
  uint64_t known_answers() const { return answers_; }

  enum class Verdict : uint8_t { kFine, kBroken };

  // The sequence that the worker is to be asked about now, if any: its answer goes to Answered. No
  // further one until then. `verdict` is set; kBroken is the last.
  std::optional<uint64_t> Look(const PathView& view, int64_t now_ns, Verdict* verdict);

  // An error is no answer, and takes back none: the lease's heartbeats tell whether the worker
  // lives, and one that has too much to do for this question has had its say before.
  Verdict Answered(uint64_t sequence, const absl::StatusOr<bootstrap::RequestState>& state,
                   int64_t now_ns);

  // How a broken path shows. For people.
  absl::string_view symptom() const { return symptom_; }

 private:
  struct Answer {
    uint64_t sequence;
    bootstrap::RequestState state;
    int64_t first_ns;  // when it first said so
  };

  explicit PathCheck(absl::Duration patience);
  void Begin(const PathView& view, int64_t now_ns);
  // What was not watched is not counted.
  void LeaveOutAbsence(int64_t now_ns);
  bool Waited(int64_t since_ns, int64_t now_ns) const;

  int64_t patience_ns_;
  uint64_t answers_ = 0;
  uint64_t turns_ = 0;
  uint64_t bytes_ = 0;
  int64_t quiet_since_ns_ = 0;  // 0: nobody has looked yet
  int64_t looked_ns_ = 0;
  bool asking_ = false;
  int looks_since_question_ = kLooksPerQuestion;
  std::optional<Answer> answer_;
  absl::string_view symptom_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_PATH_CHECK_H_
