// What a server reads of an executor's process, in which any function may run: packets on their
// socket, the page that they share, the status that it ends with. Whatever comes, a request that
// was sent to it ends, and its end is told once and in words.

#include <google/protobuf/stubs/logging.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "proto/executor_control.pb.h"
#include "src/isolation/spawner/executor_record.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"

namespace invoker::fuzz {
namespace {

constexpr absl::Duration kCallLimit = absl::Seconds(1);

void WritePage(Input* input, ExecutorPage* page) {
  page->exit_called = input->Take<uint32_t>();
  page->out_of_memory = input->Take<uint8_t>();
  page->overrun_bytes = input->TakeNumber();
  page->fault_address = input->TakeNumber();
  page->address_space_bytes = input->TakeNumber();
  page->address_space_limit = input->TakeNumber();
  if (input->TakeBool()) {
    const uint64_t session = ExecutorWatch::SessionOf(input->Take<uint16_t>());
    page->watch.Begin(session, input->Take<uint16_t>(), input->TakeNumber());
  } else {
    page->watch.End();
  }
}

void SendPacket(Input* input, int fd) {
  std::string packet;
  if (input->TakeBool()) {
    // Something that parses.
    isolation::v1::FromExecutor message;
    message.set_id(input->Pick(4));
    switch (input->Pick(4)) {
      case 0:
        message.mutable_ready()->add_functions()->set_name(input->TakeString(20));
        break;
      case 1:
        message.mutable_session_closed()->set_reason(input->TakeString(100));
        break;
      case 2:
        message.mutable_downgraded()->set_reason(input->TakeString(100));
        break;
      default:
        message.ParseFromString(input->TakeString(100));
        break;
    }
    packet = std::string(1, '\x01') + message.SerializeAsString();
  } else {
    packet = input->TakeString(200);
    // One that is not the last of its message is full.
    if (!packet.empty() && packet[0] == 0 && input->TakeBool()) {
      packet.resize(1 + ControlSocket::kPacketBytes);
    }
  }
  send(fd, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool IsPrintable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; });
}

void Play(Input* input) {
  auto pair = ControlSocket::Pair();
  FUZZ_CHECK(pair.ok());
  UniqueFd process = std::move(pair->second);
  auto created = MappedPage::Create();
  FUZZ_CHECK(created.ok());
  auto process_page = MappedPage::Map(created->second.get());
  FUZZ_CHECK(process_page.ok());
  ExecutorRecord record(1, ExecutorKind::kNative, input->TakeBool(), std::move(pair->first),
                        std::move(created->first), nullptr);
  int ends = 0;
  ExecutorProcess::Events events;
  events.on_ended = [&](const ExecutorEnd& end) {
    ++ends;
    FUZZ_CHECK(!end.reason.empty());
  };
  events.on_session_closed = [](uint64_t, absl::string_view reason) {
    FUZZ_CHECK(IsPrintable(reason));
  };
  events.on_downgraded = [](absl::string_view provider, absl::string_view reason) {
    FUZZ_CHECK(IsPrintable(provider) && IsPrintable(reason));
  };
  ExecutorTerms terms;
  terms.memory_bytes = input->TakeBool() ? 1 << 20 : 0;
  terms.call_limit = kCallLimit;
  record.Take(terms, std::move(events));
  record.OnSpawned(0);
  if (input->TakeBool()) record.BeginLoad();
  record.AddSessions(input->Pick(3));
  std::thread caller;
  if (input->Pick(4) == 0) {
    caller =
        std::thread([&record] { static_cast<void>(record.Call(isolation::v1::ToExecutor(), {})); });
  }
  absl::Time now = absl::Now();
  for (int i = 0; i < 16 && input->left() > 0; ++i) {
    WritePage(input, process_page->get());
    SendPacket(input, process.get());
    if (!record.OnReadable()) break;
    absl::Time again;
    now += absl::Milliseconds(input->Take<uint8_t>() * 20);
    const KillReason reason = record.Look(now, &again);
    if (reason != KillReason::kNone) record.SetKillReason(reason);
  }
  static_cast<void>(record.ready());
  static_cast<void>(record.Functions());
  if (caller.joinable() && input->TakeBool()) process = UniqueFd();
  record.OnEnded(input->Take<uint16_t>(), absl::ZeroDuration());
  record.WaitUntilEnded();
  FUZZ_CHECK(ends == 1 && record.ended());
  // A call that comes too late ends, too.
  if (caller.joinable()) caller.join();
  FUZZ_CHECK(!record.Call(isolation::v1::ToExecutor(), {}).ok());
}

}  // namespace
}  // namespace invoker::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // A word about each string that is not UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  invoker::fuzz::Input input(data, size);
  invoker::fuzz::Play(&input);
  return 0;
}
