// What Invoker does on a fabric, and why, in a sentence each.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/transport/self_test/fabric_report.h"

namespace invoker::transport {
namespace {

bool ClaimsOrder(const FabricClaims& claims) {
  const auto has = [](const std::vector<std::string>& order) {
    return std::find(order.begin(), order.end(), "SAW") != order.end();
  };
  return has(claims.transmit_order) && has(claims.receive_order);
}

std::string WhyThisOrder(const FabricReport& report) {
  if (report.profile.send_order == SendOrder::kPipelined) {
    return "the fabric promises that a send stays behind the write before it, so both are posted "
           "at once";
  }
  return absl::StrCat(ClaimsOrder(report.claims)
                          ? "Invoker does not rely on this fabric's order of writes and sends"
                          : "no order between writes and sends is promised here",
                      ", so the send waits until the write is delivered");
}

std::string OrderName(const Profile& profile) {
  return profile.send_order == SendOrder::kPipelined ? "pipelined" : "after delivery";
}

}  // namespace

Decision DecideNotification(const FabricReport& report) {
  const Profile& profile = report.profile;
  const std::string write_imm(NotificationName(Notification::kWriteImm));
  const std::string send =
      absl::StrCat(NotificationName(Notification::kSendAfterWrite), ", ", OrderName(profile));
  if (profile.immediates_kill) {
    return {send, absl::StrCat("with this libfabric a peer that disconnects in the middle of a "
                               "write with immediate would end this process; ",
                               WhyThisOrder(report))};
  }
  if (profile.notification != Notification::kWriteImm) {
    return {send, absl::StrCat("the fabric offers ", report.claims.cq_data_bytes,
                               " bytes of immediate and Invoker needs 4; ", WhyThisOrder(report))};
  }
  if (!report.observed.has_value()) {
    return {write_imm, absl::StrCat("the fabric claims immediates of ", report.claims.cq_data_bytes,
                                    " bytes; the probe of each session decides (--verify tries it "
                                    "now)")};
  }
  const SelfTestResult& seen = *report.observed;
  if (!seen.status.ok()) return {"none", "nothing crossed in the self-test"};
  if (seen.immediate_crossed) {
    return {write_imm,
            absl::StrCat(report.claims.cq_data_bytes, "-byte immediates, proven by the self-test")};
  }
  return {send, absl::StrCat("immediates are claimed, but in the self-test: ",
                             seen.immediate_failure, "; ", WhyThisOrder(report))};
}

Decision DecideFallback(const FabricReport& report) {
  return {absl::StrCat(NotificationName(Notification::kSendAfterWrite), ", ",
                       OrderName(report.profile)),
          WhyThisOrder(report)};
}

Decision DecideKeys(const FabricReport& report) {
  const Profile& profile = report.profile;
  if (profile.keys == KeyPolicy::kProvider) {
    return {absl::StrCat("the provider's, ", profile.key_bytes, " bytes"),
            "the fabric assigns the keys of memory itself"};
  }
  return {absl::StrCat("random, ", profile.key_bytes, " bytes"),
          "the fabric leaves the choice to Invoker, and a random key cannot be guessed"};
}

Decision DecideAddressing(const FabricReport& report) {
  if (report.profile.addressing == Addressing::kVirtual) {
    return {"virtual", "the fabric demands the target's virtual addresses"};
  }
  return {"offset", "the fabric counts from the beginning of a region"};
}

Decision DecideAtomics(const FabricReport& report) {
  const bool granted = report.profile.may_have_atomics;
  if (report.observed.has_value() && report.observed->atomics != AtomicsSeen::kNotTried) {
    switch (report.observed->atomics) {
      case AtomicsSeen::kNative:
        return {"native", "the fabric grants them, and the self-test's sum was right"};
      case AtomicsSeen::kMessage:
        return {"message",
                granted ? "the fabric offers atomics, but not this one" : "the fabric offers none"};
      default:
        return {"none", "the self-test's sum was wrong or did not come"};
    }
  }
  return granted ? Decision{"native", "the fabric offers atomics; by message if it then refuses"}
                 : Decision{"message", "the fabric offers no atomics"};
}

Decision DecideWait(const FabricReport& report) {
  const WaitMethod wait = report.observed.has_value() && report.observed->status.ok()
                              ? report.observed->wait
                              : report.profile.wait;
  std::string why;
  switch (wait) {
    case WaitMethod::kFd:
      why = "the completion queue has a descriptor that an arrival makes readable";
      break;
    case WaitMethod::kSread:
      why = "the completion queue can be slept in (fi_cq_sread), but has no usable descriptor";
      break;
    case WaitMethod::kBackoff:
      why = "nothing to sleep on: looks up every 50 us to 1 ms";
      break;
  }
  if (wait != report.profile.wait) {
    absl::StrAppend(&why, " (", WaitMethodName(report.profile.wait), " was expected)");
  }
  return {std::string(WaitMethodName(wait)), why};
}

Decision DecideMethod(const FabricReport& report) {
  const std::string one_write = "one write";
  if (!report.profile.may_send_pieces) {
    return {one_write, "the fabric does not place injected pieces of a message in order"};
  }
  if (!report.observed.has_value()) {
    return {"as each session measures",
            "pieces or one write, whichever is faster there (--verify tries it now)"};
  }
  const SelfTestResult& seen = *report.observed;
  if (seen.methods.empty()) {
    return {one_write, "the self-test had no time to try pieces; each session does"};
  }
  std::vector<std::string> lengths;
  for (const MethodTimes& times : seen.methods) {
    lengths.push_back(absl::StrFormat("%d B: %.1f us in pieces, %.1f us in one write", times.bytes,
                                      times.pieces_ns / 1e3, times.write_ns / 1e3));
  }
  return {
      seen.pieces_up_to == 0 ? one_write : absl::StrCat("pieces up to ", seen.pieces_up_to, " B"),
      absl::StrJoin(lengths, "; ")};
}

std::string AtomicsName(AtomicsSeen atomics) {
  switch (atomics) {
    case AtomicsSeen::kNotTried:
      return "not tried";
    case AtomicsSeen::kNative:
      return "native";
    case AtomicsSeen::kMessage:
      return "message";
    case AtomicsSeen::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace invoker::transport
