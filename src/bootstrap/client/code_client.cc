// BootstrapClient: what it asks of the service Code.

#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <memory>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/unary_call.h"

namespace invoker::bootstrap {
namespace {

// With what is around it, less than the server takes in one message.
constexpr size_t kChunkBytes = 48 << 10;

}  // namespace

absl::StatusOr<bool> BootstrapClient::Upload(uint64_t lease, absl::string_view sha256,
                                             absl::string_view bytes, absl::Duration timeout) {
  grpc::ClientContext context;
  channel_->Begin(&context);
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout - ReserveForExplanation(timeout)));
  channel_->Authorize(&context);
  const auto stub = v1::Code::NewStub(channel_->channel());
  v1::UploadReply reply;
  const std::unique_ptr<grpc::ClientWriter<v1::UploadChunk>> writer =
      stub->Upload(&context, &reply);
  v1::UploadChunk chunk;
  chunk.set_lease(lease);
  chunk.set_sha256(std::string(sha256));
  chunk.set_size(bytes.size());
  // The first alone: the server may know the file already, or refuse it.
  bool more = writer->Write(chunk);
  chunk.Clear();
  while (more && !bytes.empty()) {
    const size_t size = std::min(bytes.size(), kChunkBytes);
    chunk.set_data(bytes.data(), size);
    bytes.remove_prefix(size);
    // False once the server has answered.
    more = writer->Write(chunk);
  }
  if (more) writer->WritesDone();
  const grpc::Status status = writer->Finish();
  channel_->End(&context);
  if (!status.ok()) return channel_->Explain("take an upload", context, status, timeout);
  return reply.was_there();
}

absl::StatusOr<std::vector<FunctionInfo>> BootstrapClient::Load(uint64_t lease,
                                                                absl::string_view sha256,
                                                                CodeKind kind,
                                                                absl::string_view name,
                                                                absl::Duration timeout) {
  UnaryCall call(*channel_, "load code", timeout);
  v1::LoadRequest request;
  request.set_lease(lease);
  request.set_sha256(std::string(sha256));
  request.set_kind(kind == CodeKind::kLibrary ? v1::CODE_KIND_LIBRARY : v1::CODE_KIND_PYTHON);
  request.set_name(std::string(name));
  v1::LoadReply reply;
  absl::Status status = call.Run<v1::Code>(&v1::Code::Stub::Load, request, &reply);
  if (!status.ok()) return status;
  std::vector<FunctionInfo> functions;
  functions.reserve(static_cast<size_t>(reply.functions_size()));
  for (const v1::Function& function : reply.functions()) functions.push_back({function.name()});
  return functions;
}

}  // namespace invoker::bootstrap
