#include "src/transport/self_test/self_test.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/transport/self_test/self_test_observe.h"
#include "src/transport/self_test/self_test_pair.h"

namespace invoker::transport {
namespace {

// Small enough for any eager path, and large enough to need every other way a provider has. The
// last ends at the window's end.
struct Message {
  uint64_t offset;
  uint64_t length;
};
constexpr Message kMessages[] = {
    {0, 1}, {1, 64}, {4095, 4097}, {SelfTestPair::kWindowBytes - 65537, 65537}};

// Payloads that go inside the send of send-after-write.
constexpr uint64_t kSmallMessages[] = {1, 64};

// The parts of the limit: a lost immediate, what is under way at the end, and so on get one each.
constexpr int kParts = 4;

// Every message both ways. OK, or what failed first.
absl::Status CrossBothWays(SelfTestPair* pair, const Notifier* notifier,
                           const SelfTestPair::Patience& patience) {
  for (int from = 0; from < 2; ++from) {
    for (const Message& message : kMessages) {
      const absl::Status status =
          pair->Cross(from, notifier, message.offset, message.length, patience);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// The same for what goes inside a send.
absl::Status CrossInsideSends(SelfTestPair* pair, const Notifier* notifier,
                              const SelfTestPair::Patience& patience) {
  pair->set_eager(true);
  const size_t largest = pair->side(0).remote().eager_bytes;
  absl::Status status;
  for (int from = 0; from < 2 && largest > 0; ++from) {
    for (const uint64_t length : kSmallMessages) {
      if (status.ok()) status = pair->Cross(from, notifier, 3, length, patience);
    }
    if (status.ok()) status = pair->Cross(from, notifier, 0, largest, patience);
  }
  pair->set_eager(false);
  return status;
}

class SelfTest {
 public:
  SelfTest(const FabricRequest& request, absl::Duration limit)
      : request_(request),
        start_ns_(MonotonicNs()),
        part_ns_(absl::ToInt64Nanoseconds(limit) / kParts) {}

  SelfTestResult Run() {
    result_.status = TryAll();
    if (result_.status.ok()) Observe();
    Close();
    result_.elapsed = absl::Nanoseconds(MonotonicNs() - start_ns_);
    return std::move(result_);
  }

 private:
  int64_t PartFromNow() const { return MonotonicNs() + part_ns_; }

  void Close() {
    if (pair_ != nullptr) pair_->Drain(PartFromNow());
    pair_ = nullptr;
  }

  // A pair on which nothing has failed and nothing is under way.
  absl::Status Renew() {
    if (pair_ != nullptr && pair_->Drain(PartFromNow())) return absl::OkStatus();
    pair_ = nullptr;
    absl::StatusOr<std::unique_ptr<SelfTestPair>> pair = SelfTestPair::Open(request_);
    if (!pair.ok()) return pair.status();
    pair_ = *std::move(pair);
    return absl::OkStatus();
  }

  absl::Status Try(Notification notification, bool* crossed, std::string* failure) {
    if (absl::Status opened = Renew(); !opened.ok()) return opened;
    const Notifier* notifier = GetNotifier(notification, pair_->profile().send_order);
    // A fabric on which nothing arrives at all has had most of its time with the first
    // notification.
    const SelfTestPair::Patience patience = {std::max(PartFromNow(), start_ns_ + kParts * part_ns_),
                                             part_ns_};
    absl::Status status = CrossBothWays(pair_.get(), notifier, patience);
    if (status.ok() && notification == Notification::kSendAfterWrite) {
      status = CrossInsideSends(pair_.get(), notifier, patience);
      if (status.ok()) result_.eager_bytes = pair_->side(0).reactor().eager_bytes();
    }
    *crossed = status.ok();
    if (status.ok()) return status;
    *failure = std::string(status.message());
    // A message that is late must not meet the next phase's.
    Close();
    return absl::Status(status.code(),
                        absl::StrCat(NotificationName(notification), ": ", status.message()));
  }

  absl::Status TryAll() {
    if (absl::Status opened = Renew(); !opened.ok()) return opened;
    const Profile profile = pair_->profile();
    result_.wait = pair_->side(0).reactor().wait_method();
    absl::Status immediate;
    if (profile.notification == Notification::kWriteImm) {
      immediate =
          Try(Notification::kWriteImm, &result_.immediate_crossed, &result_.immediate_failure);
    } else {
      result_.immediate_failure = profile.immediates_kill
                                      ? "not tried: with this libfabric they could end the process"
                                      : "not tried: the fabric offers none";
    }
    const absl::Status send = Try(Notification::kSendAfterWrite, &result_.send_after_write_crossed,
                                  &result_.send_after_write_failure);
    if (!result_.immediate_crossed && !result_.send_after_write_crossed) {
      return absl::Status(
          send.code(),
          absl::StrCat("the self-test of provider ", profile.provider,
                       " failed: two endpoints of this process cannot write to each other. ",
                       immediate.ok() ? "" : absl::StrCat(immediate.message(), "; "),
                       send.message()));
    }
    result_.notification =
        result_.immediate_crossed ? Notification::kWriteImm : Notification::kSendAfterWrite;
    return absl::OkStatus();
  }

  // Each on a pair that is at rest; what cannot be had is not noted.
  void Observe() {
    if (!Renew().ok()) return;
    const int64_t deadline_ns = PartFromNow();
    const Notifier* notifier = GetNotifier(result_.notification, pair_->profile().send_order);
    pair_->set_eager(true);
    ObserveWait(pair_.get(), notifier, deadline_ns, &result_);
    ObserveRoundTrips(pair_.get(), notifier, deadline_ns, &result_);
    pair_->set_eager(false);
    if (result_.immediate_crossed && pair_->Drain(deadline_ns)) {
      ObserveMethods(pair_.get(), deadline_ns, &result_);
    }
    if (pair_->Drain(deadline_ns)) ObserveAtomics(pair_.get(), deadline_ns, &result_);
    if (result_.send_after_write_crossed && pair_->Drain(deadline_ns)) {
      ObserveSendOrder(pair_.get(), deadline_ns, &result_);
    }
    if (result_.immediate_crossed && pair_->Drain(deadline_ns)) {
      ObserveImmediateEntry(pair_.get(), deadline_ns, &result_);
    }
  }

  const FabricRequest request_;
  const int64_t start_ns_;
  const int64_t part_ns_;
  std::unique_ptr<SelfTestPair> pair_;
  SelfTestResult result_;
};

}  // namespace

SelfTestResult RunSelfTest(const FabricRequest& request, absl::Duration limit) {
  return SelfTest(request, limit).Run();
}

}  // namespace invoker::transport
