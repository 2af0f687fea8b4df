// Why messages led to nothing. None of them is fatal. What may be from somebody else than it says
// is dropped without an answer; a request that has been admitted and makes no sense is answered as
// refused.
//
// The driver of the session or the endpoint counts; an executor's sums may be read by any
// thread (CountShared, LoadShared).

#ifndef INVOKER_SRC_INVOKE_WIRE_DROP_COUNTERS_H_
#define INVOKER_SRC_INVOKE_WIRE_DROP_COUNTERS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "invoker/response.h"

namespace invoker {

template <typename Counters>
struct DropReason {
  absl::string_view name;
  uint64_t Counters::*count;
};

// At an executor.
struct DropCounters {
  // Requests, by session.
  uint64_t outside_window = 0;
  uint64_t not_a_header = 0;
  uint64_t kind_mismatch = 0;  // doorbell and header disagree
  uint64_t wrong_epoch = 0;
  uint64_t bad_response_run = 0;
  uint64_t replayed = 0;
  uint64_t stale_sequence = 0;  // too old or too far ahead to judge
  uint64_t bad_tag = 0;         // forged, or changed on its way
  // Admitted requests, by session: answered, and not run.
  uint64_t unknown_function = 0;
  uint64_t forbidden = 0;        // the function is not for the session's client
  uint64_t invalid_request = 0;  // bulk, with a descriptor or windows that cannot be
  uint64_t too_many_calls = 0;   // bulk, and more at a time than a session can have
  // By endpoint.
  uint64_t unknown_session = 0;  // a doorbell of none that is open, or no doorbell at all
  uint64_t stray_message = 0;    // sent to an endpoint, and nothing that may be acted on
};

// Every counter is here, in the order in which they are shown.
inline constexpr DropReason<DropCounters> kDropReasons[] = {
    {"unknown_session", &DropCounters::unknown_session},
    {"stray_message", &DropCounters::stray_message},
    {"outside_window", &DropCounters::outside_window},
    {"not_a_header", &DropCounters::not_a_header},
    {"kind_mismatch", &DropCounters::kind_mismatch},
    {"wrong_epoch", &DropCounters::wrong_epoch},
    {"bad_response_run", &DropCounters::bad_response_run},
    {"replayed", &DropCounters::replayed},
    {"stale_sequence", &DropCounters::stale_sequence},
    {"bad_tag", &DropCounters::bad_tag},
    {"unknown_function", &DropCounters::unknown_function},
    {"forbidden", &DropCounters::forbidden},
    {"invalid_request", &DropCounters::invalid_request},
    {"too_many_calls", &DropCounters::too_many_calls},
};
inline constexpr DropReason<ResponseDropCounters> kResponseDropReasons[] = {
    {"unknown_session", &ResponseDropCounters::unknown_session},
    {"outside_window", &ResponseDropCounters::outside_window},
    {"not_a_header", &ResponseDropCounters::not_a_header},
    {"no_such_call", &ResponseDropCounters::no_such_call},
    {"wrong_epoch", &ResponseDropCounters::wrong_epoch},
    {"wrong_sequence", &ResponseDropCounters::wrong_sequence},
    {"too_long", &ResponseDropCounters::too_long},
    {"bad_tag", &ResponseDropCounters::bad_tag},
};
static_assert(sizeof(DropCounters) / sizeof(uint64_t) ==
              sizeof(kDropReasons) / sizeof(kDropReasons[0]));
static_assert(sizeof(ResponseDropCounters) / sizeof(uint64_t) ==
              sizeof(kResponseDropReasons) / sizeof(kResponseDropReasons[0]));

template <typename Visitor>
void ForEachDrop(const DropCounters& counters, Visitor&& visit) {
  for (const auto& reason : kDropReasons) visit(reason.name, counters.*reason.count);
}
template <typename Visitor>
void ForEachDrop(const ResponseDropCounters& counters, Visitor&& visit) {
  for (const auto& reason : kResponseDropReasons) visit(reason.name, counters.*reason.count);
}

template <typename Counters>
uint64_t TotalDrops(const Counters& counters) {
  uint64_t sum = 0;
  ForEachDrop(counters, [&sum](absl::string_view, uint64_t count) { sum += count; });
  return sum;
}

// "replayed: 3, bad_tag: 1": those that are not 0, or "none".
template <typename Counters>
std::string DescribeDrops(const Counters& counters) {
  std::string text;
  ForEachDrop(counters, [&text](absl::string_view reason, uint64_t count) {
    if (count != 0) absl::StrAppend(&text, text.empty() ? "" : ", ", reason, ": ", count);
  });
  return text.empty() ? "none" : text;
}

// One thread counts, others may read.
inline void CountShared(uint64_t DropCounters::*reason, uint64_t count, DropCounters* shared) {
  __atomic_fetch_add(&(shared->*reason), count, __ATOMIC_RELAXED);
}
// Adds what is there now to `sum`.
inline void LoadShared(const DropCounters& shared, DropCounters* sum) {
  for (const auto& reason : kDropReasons) {
    sum->*reason.count += __atomic_load_n(&(shared.*reason.count), __ATOMIC_RELAXED);
  }
}

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WIRE_DROP_COUNTERS_H_
