#include "src/security/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

namespace invoker::security {
namespace {

// After a failed connection gRPC refuses at once until this is over; a server is often started in
// the same moment as its client.
constexpr int kFirstReconnectMs = 100;
constexpr int kLargestReconnectMs = 1000;

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           const Certificates* certificates,
                                           grpc::ChannelArguments arguments) {
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // With the global pool, another client's back-off after a failure would hide a server that has
  // just been restarted.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLargestReconnectMs);
  // gRPC 1.51 aborts where it looks whether to retry a call that a server has ended without a
  // status, as one does that is being stopped.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      certificates == nullptr
          ? grpc::InsecureChannelCredentials()
          : grpc::SslCredentials({certificates->authorities_pem, certificates->key_pem,
                                  certificates->certificate_pem});
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

}  // namespace invoker::security
