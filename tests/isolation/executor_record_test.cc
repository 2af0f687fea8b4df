// What is known of an executor at its end, whatever its socket still says.

#include "src/isolation/spawner/executor_record.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <utility>

namespace invoker {
namespace {

// What it has started may hold the other end, and say more for as long as it is listened to.
TEST(ExecutorRecord, ItsEndIsToldWhileMoreIsSaid) {
  auto ends = ControlSocket::Pair();
  auto page = MappedPage::Create();
  ASSERT_TRUE(ends.ok() && page.ok());
  ExecutorRecord record(7, ExecutorKind::kNative, /*sandboxed=*/false, std::move(ends->first),
                        std::move(page->first), nullptr);
  ControlSocket other(std::move(ends->second), ControlSocket::Takes::kDescriptors);
  isolation::v1::FromExecutor closed;
  closed.mutable_session_closed()->set_handle(5);
  const std::string bytes = closed.SerializeAsString();
  const auto fill = [&] {
    int sent = 0;
    while (other.Send(bytes, {}, /*wait=*/false).ok()) ++sent;
    return sent;
  };

  int heard = 0;
  bool ended = false;
  ExecutorProcess::Events events;
  // For each that is heard there is another one, as long as that does any good.
  events.on_session_closed = [&](uint64_t handle, absl::string_view) {
    EXPECT_EQ(handle, 5u);
    if (++heard < 10'000) fill();
  };
  events.on_ended = [&](const ExecutorEnd& end) {
    ended = true;
    EXPECT_EQ(end.cause, LeaseEndCause::kCrashed) << end.reason;
  };
  record.Take({}, std::move(events));
  ASSERT_GT(fill(), 0);
  record.OnEnded(SIGSEGV, absl::ZeroDuration());
  EXPECT_TRUE(ended);
  EXPECT_TRUE(record.ended());
  // Some of what it had said before its end, and not all that is said since.
  EXPECT_GT(heard, 0);
  EXPECT_LT(heard, 10'000);
}

}  // namespace
}  // namespace invoker
