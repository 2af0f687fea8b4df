// Memory that an executor's process shares with the server: what it runs, what it has used, and how
// it is about to end. It can be read after the process has ended, however it did.
//
// The functions that the executor runs could write to it too: it is to be believed no further than
// they are.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_PAGE_H_
#define INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_PAGE_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "src/base/unique_fd.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/function_meters.h"

namespace invoker {

struct ExecutorPage {
  ExecutorWatch watch;
  // Noted by the process when it is about to end; see end_handlers.h. Written from signal handlers:
  // plain stores only.
  std::atomic<uint32_t> exit_called{0};          // exit(3), and with which status + 1
  std::atomic<uint32_t> out_of_memory{0};        // an allocation has failed
  std::atomic<uint64_t> overrun_bytes{0};        // written by an rFaaS function beyond its room
  std::atomic<uint64_t> fault_address{0};        // for a signal that has one
  std::atomic<uint64_t> address_space_bytes{0};  // in use, when a signal came
  std::atomic<uint64_t> address_space_limit{0};  // RLIMIT_AS; 0: none
  FunctionMeters function_meters;
};

// A mapping of it.
class MappedPage {
 public:
  // A new one, all zeros, and a descriptor to hand to another process.
  static absl::StatusOr<std::pair<MappedPage, UniqueFd>> Create();
  static absl::StatusOr<MappedPage> Map(int fd);

  MappedPage(MappedPage&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  MappedPage& operator=(MappedPage&& other) noexcept {
    std::swap(page_, other.page_);
    return *this;
  }
  ~MappedPage();

  ExecutorPage* operator->() const { return page_; }
  ExecutorPage* get() const { return page_; }

 private:
  explicit MappedPage(ExecutorPage* page) : page_(page) {}

  ExecutorPage* page_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_PAGE_H_
