// The trailing metadata that an invoker server puts on each of its statuses.
//
// UNAVAILABLE from a draining worker and UNAVAILABLE made up by gRPC because nobody answered look
// the same otherwise.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_ANSWER_MARK_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_ANSWER_MARK_H_

namespace invoker::bootstrap {

inline constexpr char kAnswerMarkKey[] = "x-invoker-answer";
inline constexpr char kAnswerMarkValue[] = "1";

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_ANSWER_MARK_H_
