#include "tests/soak/ledger_check.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace invoker::soak {

std::string WrongCall(const ClientRecord& record, bool killed) {
  const uint64_t sent = record.sent.load();
  if (sent > kMostCalls) return absl::StrCat(sent, " calls sent, more than a client has");
  for (uint32_t call = 0; call < kMostCalls; ++call) {
    const int executed = record.calls[call].executed.load();
    const int answered = record.calls[call].answered.load();
    const bool was_sent = call < sent;
    const bool right = !was_sent ? executed == 0 && answered == 0
                       : killed  ? answered <= executed && executed <= 1
                                 : answered == 1 && executed == 1;
    if (right) continue;
    return absl::StrCat("call ", call, " was ", was_sent ? "" : "not ", "sent, executed ", executed,
                        " times, answered ", answered, " times");
  }
  return "";
}

}  // namespace invoker::soak
