// A reactor's counts of events on the data path. The driver writes them; read them on its thread.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_COUNTERS_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_COUNTERS_H_

#include <cstdint>

namespace invoker::transport {

struct ReactorCounters {
  uint64_t turns = 0;
  uint64_t posts = 0;
  uint64_t posts_refused = 0;      // -FI_EAGAIN, later tried again
  uint64_t posts_failed = 0;       // for good
  uint64_t completion_errors = 0;  // from fi_cq_readerr
  uint64_t stray_completions = 0;  // they belong to no live operation
  uint64_t stray_messages = 0;     // received and dropped, or found faulty by the provider
  uint64_t eager_messages = 0;     // received whole and put in their place
  uint64_t additions = 0;          // to our counters, by message
  uint64_t checks = 0;             // that were awaited
  uint64_t completions = 0;        // operations' completions, errors too
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_COUNTERS_H_
