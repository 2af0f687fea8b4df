#include "bench/raw/raw_stream.h"

#include <algorithm>
#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "bench/raw/turn_meter.h"

namespace invoker::bench {
namespace {

constexpr absl::string_view kCommand = "stream";

// Immediates. What is neither of these is the number of a slot.
constexpr uint32_t kOver = 1u << 31;   // with a count in kOutward
constexpr uint32_t kReady = 1u << 30;  // alone: the server polls
constexpr uint32_t kCountMask = kReady - 1;

// The size of a message that is only its immediate: some fabrics have no writes of nothing.
constexpr size_t kWordBytes = 8;

constexpr int64_t kGiveUpNs = 10'000'000'000;
// The clock is looked at once in so many polls that found nothing.
constexpr uint32_t kPollsPerClock = 1u << 16;

// Reads arrivals, and notices if there are none any more.
class Arrivals {
 public:
  explicit Arrivals(RawEndpoint* endpoint) : endpoint_(endpoint) {}

  absl::StatusOr<absl::Span<const uint32_t>> Poll() {
    absl::StatusOr<size_t> count = endpoint_->TakeArrived(absl::MakeSpan(data_));
    if (!count.ok()) return count.status();
    if (*count > 0) {
      idle_polls_ = 0;
      idle_since_ns_ = 0;
    } else if (++idle_polls_ % kPollsPerClock == 0) {
      const int64_t now_ns = ClockNs();
      if (idle_since_ns_ == 0) idle_since_ns_ = now_ns;
      if (now_ns - idle_since_ns_ > kGiveUpNs) {
        return absl::DeadlineExceededError("raw stream: nothing has come for ten seconds");
      }
    }
    return absl::MakeConstSpan(data_).first(*count);
  }

 private:
  RawEndpoint* endpoint_;
  std::array<uint32_t, 64> data_;
  uint32_t idle_polls_ = 0;
  int64_t idle_since_ns_ = 0;
};

// Slots whose next message is to be written, in order; the provider may refuse for a while.
class DueSlots {
 public:
  // `bytes` are written from each slot.
  DueSlots(RawEndpoint* endpoint, const StreamShape& shape, size_t bytes)
      : endpoint_(endpoint),
        bytes_(bytes),
        slot_bytes_(shape.slot_bytes),
        slots_(shape.in_flight) {}

  bool empty() const { return count_ == 0; }

  absl::Status Add(uint32_t slot) {
    if (slot >= slots_.size() || count_ == slots_.size()) {
      return absl::InternalError(absl::StrCat("raw stream: unexpected immediate ", slot));
    }
    slots_[(first_ + count_++) % slots_.size()] = slot;
    return absl::OkStatus();
  }

  absl::Status Write() {
    while (count_ > 0) {
      const uint32_t slot = slots_[first_];
      absl::StatusOr<bool> taken = endpoint_->TryWrite(slot * slot_bytes_, bytes_, slot);
      if (!taken.ok()) return taken.status();
      if (!*taken) break;
      first_ = (first_ + 1) % slots_.size();
      --count_;
    }
    return absl::OkStatus();
  }

 private:
  RawEndpoint* endpoint_;
  size_t bytes_;
  size_t slot_bytes_;
  std::vector<uint32_t> slots_;
  size_t first_ = 0;
  size_t count_ = 0;
};

absl::Status ExpectReady(RawEndpoint* endpoint) {
  absl::StatusOr<uint32_t> data = endpoint->Await();
  if (!data.ok()) return data.status();
  if (*data == kReady) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("raw stream: the peer is not ready but says ", *data));
}

absl::Status SayOver(RawEndpoint* endpoint, uint32_t count) {
  if (absl::Status status = endpoint->Write(kWordBytes, kOver | count); !status.ok()) return status;
  return endpoint->Drain();
}

absl::StatusOr<double> MeasureAnswered(RawEndpoint* endpoint, const StreamShape& shape,
                                       int64_t turn_ns, std::vector<int64_t>* times_ns) {
  Arrivals arrivals(endpoint);
  DueSlots due(endpoint, shape, shape.bytes);
  TurnMeter meter(turn_ns, times_ns);
  std::vector<int64_t> started_ns(shape.in_flight, ClockNs());
  for (uint32_t slot = 0; slot < shape.in_flight; ++slot) {
    if (absl::Status status = due.Add(slot); !status.ok()) return status;
  }
  uint32_t active = shape.in_flight;
  while (active > 0) {
    if (absl::Status status = due.Write(); !status.ok()) return status;
    absl::StatusOr<absl::Span<const uint32_t>> data = arrivals.Poll();
    if (!data.ok()) return data.status();
    if (data->empty()) continue;
    const int64_t now_ns = ClockNs();
    for (uint32_t slot : *data) {
      if (slot < shape.in_flight && !meter.Complete(started_ns[slot], now_ns)) {
        --active;
        continue;
      }
      if (absl::Status status = due.Add(slot); !status.ok()) return status;
      started_ns[slot] = now_ns;
    }
  }
  if (absl::Status status = SayOver(endpoint, 0); !status.ok()) return status;
  return meter.PerSecond();
}

absl::Status ServeAnswered(RawEndpoint* endpoint, const StreamShape& shape) {
  Arrivals arrivals(endpoint);
  DueSlots due(endpoint, shape, shape.answer_bytes);
  bool over = false;
  while (!over || !due.empty()) {
    absl::StatusOr<absl::Span<const uint32_t>> data = arrivals.Poll();
    if (!data.ok()) return data.status();
    for (uint32_t slot : *data) {
      if (slot == kOver) {
        over = true;
      } else if (absl::Status status = due.Add(slot); !status.ok()) {
        return status;
      }
    }
    if (absl::Status status = due.Write(); !status.ok()) return status;
  }
  return endpoint->Drain();
}

// Writes messages with at most `in_flight` uncompleted, until `limit` have been written or the time
// has come. Returns how many.
absl::StatusOr<uint32_t> SendMany(RawEndpoint* endpoint, const StreamShape& shape, uint32_t limit,
                                  int64_t until_ns) {
  Arrivals arrivals(endpoint);
  uint32_t slot = 0;
  for (uint32_t count = 0;; ++count) {
    if (count == limit) return count;
    if (count % 16 == 0 && ClockNs() >= until_ns) return count;
    bool taken = false;
    while (!taken) {
      if (endpoint->outstanding() < shape.in_flight) {
        absl::StatusOr<bool> written =
            endpoint->TryWrite(slot * shape.slot_bytes, shape.bytes, slot);
        if (!written.ok()) return written.status();
        taken = *written;
      }
      if (taken) break;
      absl::StatusOr<absl::Span<const uint32_t>> data = arrivals.Poll();
      if (!data.ok()) return data.status();
      if (!data->empty()) return absl::InternalError("raw stream: an answer that nobody asked for");
    }
    slot = (slot + 1) % shape.in_flight;
  }
}

absl::StatusOr<double> MeasureOutward(RawEndpoint* endpoint, const StreamShape& shape,
                                      int64_t turn_ns) {
  const int64_t begin_ns = ClockNs();
  absl::StatusOr<uint32_t> count = SendMany(endpoint, shape, kCountMask, begin_ns + turn_ns);
  if (!count.ok()) return count.status();
  if (absl::Status status = endpoint->Drain(); !status.ok()) return status;
  if (absl::Status status = SayOver(endpoint, *count); !status.ok()) return status;
  absl::StatusOr<uint32_t> answer = endpoint->Await();
  if (!answer.ok()) return answer.status();
  if (*answer != kOver) return absl::InternalError("raw stream: not the answer that ends a stream");
  return *count * 1e9 / static_cast<double>(ClockNs() - begin_ns);
}

// The word that it is over may overtake what went before it.
absl::Status ServeOutward(RawEndpoint* endpoint) {
  Arrivals arrivals(endpoint);
  uint32_t count = 0;
  uint32_t expected = UINT32_MAX;
  while (count != expected) {
    absl::StatusOr<absl::Span<const uint32_t>> data = arrivals.Poll();
    if (!data.ok()) return data.status();
    for (uint32_t word : *data) {
      if ((word & kOver) != 0) {
        expected = word & kCountMask;
      } else {
        ++count;
      }
    }
  }
  return SayOver(endpoint, 0);
}

absl::StatusOr<double> MeasureInward(RawEndpoint* endpoint, const StreamShape& shape,
                                     int64_t turn_ns, double expected_per_s) {
  const double wanted = expected_per_s * static_cast<double>(turn_ns) / 1e9;
  const uint32_t expected = static_cast<uint32_t>(
      std::clamp(wanted, 2.0 * shape.in_flight, static_cast<double>(kCountMask)));
  Arrivals arrivals(endpoint);
  const int64_t begin_ns = ClockNs();
  if (absl::Status status = endpoint->Write(kWordBytes, expected); !status.ok()) return status;
  uint32_t count = 0;
  while (count < expected) {
    absl::StatusOr<absl::Span<const uint32_t>> data = arrivals.Poll();
    if (!data.ok()) return data.status();
    count += static_cast<uint32_t>(data->size());
  }
  return count * 1e9 / static_cast<double>(ClockNs() - begin_ns);
}

absl::Status ServeInward(RawEndpoint* endpoint, const StreamShape& shape) {
  absl::StatusOr<uint32_t> wanted = endpoint->Await();
  if (!wanted.ok()) return wanted.status();
  absl::StatusOr<uint32_t> count = SendMany(endpoint, shape, *wanted, INT64_MAX);
  if (!count.ok()) return count.status();
  return endpoint->Drain();
}

}  // namespace

std::string StreamCommand(const StreamShape& shape) {
  return absl::StrCat(kCommand, " ", static_cast<int>(shape.pattern), " ", shape.bytes, " ",
                      shape.answer_bytes, " ", shape.slot_bytes, " ", shape.in_flight);
}

absl::StatusOr<bool> ServeStream(RawEndpoint* endpoint, absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
  if (words.empty() || words[0] != kCommand) return false;
  StreamShape shape;
  int pattern;
  if (words.size() != 6 || !absl::SimpleAtoi(words[1], &pattern) || pattern < 0 ||
      pattern > static_cast<int>(StreamPattern::kInward) ||
      !absl::SimpleAtoi(words[2], &shape.bytes) ||
      !absl::SimpleAtoi(words[3], &shape.answer_bytes) ||
      !absl::SimpleAtoi(words[4], &shape.slot_bytes) ||
      !absl::SimpleAtoi(words[5], &shape.in_flight) || shape.in_flight == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", line, "\" is not stream PATTERN BYTES ANSWER_BYTES SLOT_BYTES IN_FLIGHT"));
  }
  shape.pattern = static_cast<StreamPattern>(pattern);
  if (std::max(shape.bytes, shape.answer_bytes) > shape.slot_bytes ||
      shape.slot_bytes > endpoint->capacity() / shape.in_flight) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", line, "\" does not fit into ", endpoint->capacity(), " bytes"));
  }
  absl::Status status = endpoint->Write(kWordBytes, kReady);
  if (!status.ok()) return status;
  switch (shape.pattern) {
    case StreamPattern::kAnswered:
      status = ServeAnswered(endpoint, shape);
      break;
    case StreamPattern::kOutward:
      status = ServeOutward(endpoint);
      break;
    case StreamPattern::kInward:
      status = ServeInward(endpoint, shape);
      break;
  }
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<double> MeasureStream(RawEndpoint* endpoint, const StreamShape& shape,
                                     int64_t turn_ns, double expected_per_s,
                                     std::vector<int64_t>* times_ns) {
  if (absl::Status status = ExpectReady(endpoint); !status.ok()) return status;
  switch (shape.pattern) {
    case StreamPattern::kAnswered:
      return MeasureAnswered(endpoint, shape, turn_ns, times_ns);
    case StreamPattern::kOutward:
      return MeasureOutward(endpoint, shape, turn_ns);
    case StreamPattern::kInward:
      return MeasureInward(endpoint, shape, turn_ns, expected_per_s);
  }
  return absl::InternalError("raw stream: no such pattern");
}

}  // namespace invoker::bench
