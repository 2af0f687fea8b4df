// What a client or a server says at bootstrap: every message that can be parsed is converted, and
// what was converted converts to the same again; and a server in this process answers any request,
// under a lease or not, with a session token that is good or not, and files that have the hash that
// they say or not, and lives.

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/bootstrap.grpc.pb.h"
#include "src/accounting/accounting_service.h"
#include "src/base/sha256.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/bootstrap/conversion/convert_accounting.h"
#include "src/bootstrap/conversion/convert_lease.h"
#include "src/bootstrap/messages/answer_mark.h"
#include "src/bootstrap/messages/compatibility.h"
#include "src/bootstrap/service/server.h"
#include "src/code/blob_cache.h"
#include "src/code/code_service.h"
#include "tests/bootstrap/fake_host.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"

namespace invoker::fuzz {
namespace {

namespace v1 = bootstrap::v1;

// The clock is nothing to depend on: a request that takes so long hangs.
constexpr auto kHangs = std::chrono::seconds(30);

template <typename Message>
bool Parse(Input* input, Message* message) {
  const absl::string_view bytes = input->Rest();
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// `convert` makes what the message means, and `back` a message of that.
template <typename Message, typename Convert>
void CheckConversion(Input* input, Convert convert) {
  Message message;
  if (!Parse(input, &message)) return;
  const auto meant = convert(message);
  if (!meant.ok()) {
    FUZZ_CHECK(!meant.status().message().empty());
    return;
  }
  const Message again = bootstrap::ToProto(*meant);
  const auto meant_again = convert(again);
  FUZZ_CHECK(meant_again.ok());
  FUZZ_CHECK(bootstrap::ToProto(*meant_again).SerializeAsString() == again.SerializeAsString());
}

// For those that cannot fail.
template <typename Message>
void CheckTotalConversion(Input* input) {
  Message message;
  if (!Parse(input, &message)) return;
  const Message again = bootstrap::ToProto(bootstrap::FromProto(message));
  FUZZ_CHECK(bootstrap::ToProto(bootstrap::FromProto(again)).SerializeAsString() ==
             again.SerializeAsString());
}

void CheckConversions(uint32_t which, Input* input) {
  switch (which) {
    case 0:
      return CheckConversion<v1::GetWorkerInfoReply>(
          input, [](const auto& message) { return bootstrap::FromProto(message); });
    case 1:
      return CheckConversion<v1::OpenSessionReply>(
          input, [](const auto& message) { return bootstrap::FromProto(message); });
    case 2:
      return CheckConversion<v1::LeaseTerms>(
          input, [](const auto& message) { return bootstrap::FromProto(message); });
    case 3:
      return CheckConversion<v1::ContributeRequest>(
          input, [](const auto& message) { return bootstrap::FromProto(message); });
    case 4:
      return CheckConversion<v1::ContributeReply>(
          input, [](const auto& message) { return bootstrap::FromProto(message, 3); });
    case 5:
      return CheckTotalConversion<v1::Usage>(input);
    case 6:
      return CheckTotalConversion<v1::UsageRecord>(input);
    case 7:
      return CheckTotalConversion<v1::LeaseEvent::Ended>(input);
    default: {
      const std::string text = bootstrap::PrintableText(input->Rest(), 40);
      FUZZ_CHECK(text.size() <= 3 * 40 + 16);
      for (const char c : text) FUZZ_CHECK(c >= ' ' || c < 0);
    }
  }
}

// A server, a channel to it, and a lease that is held for as long as the process lives.
class Served {
 public:
  static Served& Get() {
    static auto* const served = new Served;
    return *served;
  }

  v1::Bootstrap::Stub& bootstrap() { return *bootstrap_; }
  v1::Memory::Stub& memory() { return *memory_; }
  v1::Code::Stub& code() { return *code_; }
  v1::Accounting::Stub& accounting() { return *accounting_; }

  // A session token of the lease's, for one session.
  std::string TakeToken() {
    if (tokens_.empty()) {
      v1::LeaseRequest request;
      request.mutable_more_session_tokens()->set_count(kTokens);
      FUZZ_CHECK(stream_->Write(request));
      ReadTokens();
    }
    std::string token = std::move(tokens_.back());
    tokens_.pop_back();
    return token;
  }

  // The hash of the file that was last uploaded, if any was.
  std::string uploaded;

  // Messages of the lease's own, where the input leaves it open.
  template <typename Message>
  void FillIn(Message* message) {
    const auto* field = Message::descriptor()->FindFieldByName("lease");
    if (field == nullptr || field->is_repeated() ||
        field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_UINT64) {
      return;
    }
    const auto* reflection = message->GetReflection();
    if (reflection->GetUInt64(*message, field) == 0) reflection->SetUInt64(message, field, lease_);
  }

 private:
  Served() {
    bootstrap::ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.lease_expiry = absl::Hours(24);
    options.heartbeat_interval = absl::Hours(1);
    // So that one that is kept for another request is good then.
    options.session_token_expiry = absl::Hours(24);
    BlobCacheOptions cache_options;
    cache_options.capacity_bytes = 1 << 16;
    auto cache = BlobCache::Open(cache_options);
    FUZZ_CHECK(cache.ok());
    cache_ = *std::move(cache);
    // It takes no additions, as one without counters of its own.
    options.services = {MakeCodeService(cache_.get(), UploadPolicy::kAll),
                        MakeAccountingService(nullptr)};
    auto server = bootstrap::Server::Start(options, &host_);
    FUZZ_CHECK(server.ok());
    server_ = *std::move(server);
    const auto channel =
        grpc::CreateChannel(server_->listen_address(), grpc::InsecureChannelCredentials());
    bootstrap_ = v1::Bootstrap::NewStub(channel);
    memory_ = v1::Memory::NewStub(channel);
    code_ = v1::Code::NewStub(channel);
    accounting_ = v1::Accounting::NewStub(channel);
    stream_ = bootstrap_->Lease(&context_);
    v1::LeaseRequest request;
    request.mutable_terms();
    FUZZ_CHECK(stream_->Write(request));
    v1::LeaseEvent event;
    FUZZ_CHECK(stream_->Read(&event) && event.has_granted());
    lease_ = event.granted().lease();
    // Now that OpenSSL has been used, so that it is there until the last request has ended. The
    // cache's directory is a temporary one.
    std::atexit([] {
      Get().server_->Stop();
      Get().cache_.reset();
    });
  }

  // Until some come.
  void ReadTokens() {
    v1::LeaseEvent event;
    while (tokens_.empty()) {
      FUZZ_CHECK(stream_->Read(&event));
      for (const std::string& token : event.session_tokens().tokens()) tokens_.push_back(token);
    }
  }

  static constexpr uint32_t kTokens = 64;

  bootstrap::FakeHost host_;
  std::unique_ptr<BlobCache> cache_;
  std::unique_ptr<bootstrap::Server> server_;
  std::unique_ptr<v1::Bootstrap::Stub> bootstrap_;
  std::unique_ptr<v1::Memory::Stub> memory_;
  std::unique_ptr<v1::Code::Stub> code_;
  std::unique_ptr<v1::Accounting::Stub> accounting_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::LeaseRequest, v1::LeaseEvent>> stream_;
  uint64_t lease_ = 0;
  std::vector<std::string> tokens_;
};

// What an input can hardly hit upon: filled in where it says nothing.
void FillInSecret(v1::OpenSessionRequest* request) {
  if (request->session_token().empty()) request->set_session_token(Served::Get().TakeToken());
}
void FillInSecret(v1::LoadRequest* request) {
  if (request->sha256().empty()) request->set_sha256(Served::Get().uploaded);
}
void FillInSecret(google::protobuf::Message*) {}

// The answer may be any but one that says that the server is gone, or hangs: gRPC has a message for
// that too, but not the mark of the service's own answers.
void CheckAnswer(const grpc::ClientContext& context, const grpc::Status& status) {
  FUZZ_CHECK(status.error_code() != grpc::StatusCode::UNAVAILABLE ||
             context.GetServerTrailingMetadata().count(bootstrap::kAnswerMarkKey) > 0);
  FUZZ_CHECK(status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED);
  FUZZ_CHECK(status.error_code() != grpc::StatusCode::UNKNOWN);
}

template <typename Request, typename Reply, typename Stub, typename Method>
void Ask(Input* input, Stub* stub, Method method) {
  Request request;
  if (!Parse(input, &request)) return;
  Served::Get().FillIn(&request);
  FillInSecret(&request);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kHangs);
  Reply reply;
  const grpc::Status status = (stub->*method)(&context, request, &reply);
  CheckAnswer(context, status);
}

// A lease stream that says a few things and is then cut, or given back.
void Stream(Input* input) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kHangs);
  auto stream = Served::Get().bootstrap().Lease(&context);
  for (int i = 0; i < 4 && input->left() > 0; ++i) {
    const std::string bytes = input->TakeString(80);
    v1::LeaseRequest request;
    if (!request.ParseFromString(bytes)) continue;
    if (!stream->Write(request)) break;
  }
  if (input->TakeBool()) {
    context.TryCancel();
  } else {
    stream->WritesDone();
    v1::LeaseEvent event;
    while (stream->Read(&event)) {
    }
  }
  CheckAnswer(context, stream->Finish());
}

// A file in some pieces, of which any may be no chunk at all; with the right hash and size unless
// the input says something else.
void Upload(Input* input) {
  std::vector<v1::UploadChunk> chunks(1 + input->Pick(4));
  std::string file;
  for (v1::UploadChunk& chunk : chunks) {
    if (input->TakeBool()) {
      chunk.set_data(input->TakeString(60));
    } else if (!chunk.ParseFromString(input->TakeString(80))) {
      chunk.Clear();
    }
    file += chunk.data();
  }
  v1::UploadChunk& first = chunks.front();
  Served::Get().FillIn(&first);
  Sha256 sum;
  sum.Update(file);
  const auto digest = sum.Finish();
  FUZZ_CHECK(digest.ok());
  const std::string hash = digest->ToBytes();
  if (first.sha256().empty()) first.set_sha256(hash);
  if (first.size() == 0) first.set_size(file.size());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kHangs);
  v1::UploadReply reply;
  auto stream = Served::Get().code().Upload(&context, &reply);
  for (const v1::UploadChunk& chunk : chunks) {
    if (!stream->Write(chunk)) break;
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  CheckAnswer(context, status);
  if (!status.ok()) return;
  // What was taken is what it was said to be, or was there.
  FUZZ_CHECK(reply.was_there() || (first.sha256() == hash && first.size() == file.size()));
  Served::Get().uploaded = first.sha256();
}

}  // namespace
}  // namespace invoker::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // A word about each string that is not UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace invoker::fuzz;
  Input input(data, size);
  const uint8_t which = input.Take<uint8_t>() % 39;
  if (which < 24) {
    CheckConversions(which % 9, &input);
    return 0;
  }
  v1::Bootstrap::Stub& bootstrap = Served::Get().bootstrap();
  switch (which) {
    case 24:
    case 25:
      Ask<v1::OpenSessionRequest, v1::OpenSessionReply>(&input, &bootstrap,
                                                        &v1::Bootstrap::Stub::OpenSession);
      break;
    case 26:
      Ask<v1::SwitchNotificationRequest, v1::SwitchNotificationReply>(
          &input, &bootstrap, &v1::Bootstrap::Stub::SwitchNotification);
      break;
    case 27:
      Ask<v1::CloseSessionRequest, v1::CloseSessionReply>(&input, &bootstrap,
                                                          &v1::Bootstrap::Stub::CloseSession);
      break;
    case 28:
      Ask<v1::RegisterWindowRequest, v1::RegisterWindowReply>(&input, &Served::Get().memory(),
                                                              &v1::Memory::Stub::RegisterWindow);
      break;
    case 29:
      Ask<v1::ForgetWindowRequest, v1::ForgetWindowReply>(&input, &Served::Get().memory(),
                                                          &v1::Memory::Stub::ForgetWindow);
      break;
    case 30:
      Ask<v1::GetWorkerInfoRequest, v1::GetWorkerInfoReply>(&input, &bootstrap,
                                                            &v1::Bootstrap::Stub::GetWorkerInfo);
      break;
    case 31:
      Stream(&input);
      break;
    case 32:
    case 33:
      Upload(&input);
      break;
    case 34:
      Ask<v1::LoadRequest, v1::LoadReply>(&input, &Served::Get().code(), &v1::Code::Stub::Load);
      break;
    case 35:
      Ask<v1::FindRequestRequest, v1::FindRequestReply>(&input, &bootstrap,
                                                        &v1::Bootstrap::Stub::FindRequest);
      break;
    case 36:
      Ask<v1::GetUsageRequest, v1::GetUsageReply>(&input, &Served::Get().accounting(),
                                                  &v1::Accounting::Stub::GetUsage);
      break;
    case 37:
      Ask<v1::GetDroppedRequest, v1::GetDroppedReply>(&input, &Served::Get().accounting(),
                                                      &v1::Accounting::Stub::GetDropped);
      break;
    case 38:
      Ask<v1::ContributeRequest, v1::ContributeReply>(&input, &Served::Get().accounting(),
                                                      &v1::Accounting::Stub::Contribute);
      break;
  }
  return 0;
}
