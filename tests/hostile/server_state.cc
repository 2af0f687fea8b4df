#include "tests/hostile/server_state.h"

#include <cstring>
#include <utility>

#include "absl/time/time.h"

namespace invoker::hostile {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);

}  // namespace

absl::StatusOr<Counts> ReadCounts(RawSession* session) {
  absl::StatusOr<std::string> text = session->Run(session->FunctionId("counts"), "", kTimeout);
  if (!text.ok()) return text.status();
  Counts counts;
  if (text->size() != sizeof(counts)) return absl::InternalError("counts of another size");
  memcpy(&counts, text->data(), sizeof(counts));
  return counts;
}

absl::StatusOr<Drops> ReadDrops(RawSession* session) {
  auto dropped = session->bootstrap().GetDropped(kTimeout);
  if (!dropped.ok()) return dropped.status();
  Drops drops;
  for (const bootstrap::DropCount& drop : *dropped) drops[drop.reason] = drop.count;
  return drops;
}

absl::StatusOr<Drops> AwaitRest(RawSession* session) {
  constexpr int kUnchanged = 5;
  absl::StatusOr<Drops> last = ReadDrops(session);
  for (int unchanged = 0; last.ok() && unchanged < kUnchanged;) {
    if (absl::StatusOr<Counts> counts = ReadCounts(session); !counts.ok()) return counts.status();
    absl::StatusOr<Drops> now = ReadDrops(session);
    unchanged = now.ok() && *now == *last ? unchanged + 1 : 0;
    last = std::move(now);
  }
  return last;
}

}  // namespace invoker::hostile
