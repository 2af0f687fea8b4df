#include "src/invoke/client/stored_value.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invoker/call_fate.h"
#include "invoker/reference.h"
#include "src/base/random.h"
#include "src/invoke/client/call_starter.h"
#include "src/invoke/session/driver/call_driver.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {
namespace {

// CallOptions::interrupted is asked so often.
constexpr absl::Duration kLook = absl::Milliseconds(100);

}  // namespace

StorePlaces::StorePlaces(std::vector<Client*> clients)
    : clients_(std::move(clients)), waiting_(clients_.size()) {}

void StorePlaces::Free(const DataId& id) {
  CallOptions options;
  options.response_capacity = 1;
  options.when_full = WhenFull::kFail;
  // Others' callbacks may let go of references, too, and come here.
  const CallDriver::CallbacksElsewhere elsewhere;
  absl::MutexLock lock(&mutex_);
  if (closed_) return;
  for (size_t i = 0; i < clients_.size(); ++i) {
    std::vector<DataId>& waiting = waiting_[i];
    waiting.push_back(id);
    while (!waiting.empty()) {
      CallDone done = [](const absl::StatusOr<Response>&) {};
      const absl::Status status = CallStarter::StartStore(*clients_[i], StoreOperation::kFree,
                                                          Bytes(waiting.back()), options, done);
      if (absl::IsResourceExhausted(status)) break;
      // Any other failure is the end of the session, and of its data.
      waiting.pop_back();
    }
  }
}

void StorePlaces::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

StoredValue::StoredValue(const DataId& id, std::string type, size_t bytes,
                         std::vector<std::shared_ptr<StorePlaces>> places)
    : id_(id), type_(std::move(type)), bytes_(bytes), places_(std::move(places)) {}

absl::StatusOr<std::shared_ptr<StoredValue>> StoredValue::Put(
    std::vector<std::shared_ptr<StorePlaces>> places, std::string type, size_t bytes,
    absl::FunctionRef<void(std::byte*)> write, const CallOptions& options) {
  DataId id;
  if (absl::Status status = transport::FillRandom(absl::MakeSpan(id)); !status.ok()) return status;
  const size_t head = PutHeadBytes(type);
  absl::StatusOr<transport::HostBuffer> request = transport::HostBuffer::Allocate(head + bytes);
  if (!request.ok()) return request.status();
  request->PreferLargePages();
  EncodePutHead(id, type, request->data());
  write(request->data() + head);
  // Frees what has arrived if the rest does not.
  std::shared_ptr<StoredValue> value(
      new StoredValue(id, std::move(type), bytes, std::move(places)));
  absl::Status status = value->Send({request->data(), request->size()}, options);
  if (!status.ok()) return status;
  return value;
}

// To all of them at the same time.
absl::Status StoredValue::Send(absl::Span<const std::byte> request, const CallOptions& options) {
  CallOptions each;
  each.timeout = options.timeout;
  each.interrupted = options.interrupted;
  each.response_capacity = 512;  // for what an executor says against it
  struct Sent {
    const Client* client;
    absl::StatusOr<Future> future;
  };
  std::vector<Sent> all;
  for (const std::shared_ptr<StorePlaces>& place : places_) {
    for (Client* client : place->clients()) {
      all.push_back(
          {client, CallStarter::StartStore(*client, StoreOperation::kPut, request, each)});
    }
  }
  absl::Status first;
  for (Sent& sent : all) {
    while (sent.future.ok() && !sent.future->Wait(kLook)) {
      if (options.interrupted != nullptr && options.interrupted()) sent.future->Cancel();
    }
    const absl::Status status =
        sent.future.ok() ? sent.future->Get().status() : sent.future.status();
    if (status.ok() || !first.ok()) continue;
    first = WithFate(
        absl::Status(status.code(), absl::StrCat("cannot put ", bytes_, " bytes into executor ",
                                                 sent.client->executor(), " at ",
                                                 sent.client->server(), ": ", status.message())),
        GetCallFate(status));
  }
  return first;
}

void StoredValue::Free() {
  if (freed_.exchange(true)) return;
  for (const std::shared_ptr<StorePlaces>& place : places_) place->Free(id_);
}

const UntypedReference::Id& UntypedReference::id() const { return value_->id(); }
const std::string& UntypedReference::type() const { return value_->type(); }
size_t UntypedReference::bytes() const { return value_->bytes(); }
void UntypedReference::Free() { value_->Free(); }
bool UntypedReference::freed() const { return value_->freed(); }

}  // namespace invoker
