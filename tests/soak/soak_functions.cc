// The function that a soak calls. It checks every byte that it gets, and counts itself in the
// ledger that its environment names: the server's, which executors of a lease's own get as well.

#include <cstdlib>
#include <cstring>

#include "invoker/function.h"
#include "tests/soak/ledger.h"

namespace {

using invoker::soak::ClientRecord;
using invoker::soak::Fill;
using invoker::soak::kMostCalls;
using invoker::soak::Work;

ClientRecord* RecordOf(uint64_t client) {
  static ClientRecord* const ledger = [] {
    const char* path = std::getenv(invoker::soak::kLedgerVariable);
    return path == nullptr ? nullptr : invoker::soak::MapLedger(path, /*create=*/false);
  }();
  const bool known = ledger != nullptr && client < invoker::soak::kMostClients;
  return known ? &ledger[client] : nullptr;
}

}  // namespace

INVOKER_FUNCTION(soak.work, input, output) {
  Work work;
  if (input.size() < sizeof(work)) return invoker::Result::Error("no work");
  std::memcpy(&work, input.data(), sizeof(work));
  ClientRecord* const record = RecordOf(work.client);
  if (record != nullptr && work.call < kMostCalls) {
    record->executed.fetch_add(1);
    record->calls[work.call].executed.fetch_add(1);
  }
  Fill in(work.seed);
  if (input.size() != work.input_bytes ||
      !in.Check(input.data() + sizeof(work), input.size() - sizeof(work))) {
    if (record != nullptr) record->wrong.fetch_add(1);
    return invoker::Result::Error("wrong bytes in the input");
  }
  if (!output.Resize(work.output_bytes)) return invoker::Result::TooSmall(work.output_bytes);
  Fill(~work.seed).Write(output.data(), work.output_bytes);
  return invoker::Result::Ok();
}
