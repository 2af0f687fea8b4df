// A gRPC channel to a server that may be hostile, or come and go.

#ifndef INVOKER_SRC_SECURITY_CHANNEL_H_
#define INVOKER_SRC_SECURITY_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

#include "src/security/certificates.h"

namespace invoker::security {

// Opens a channel to `target`, a name as gRPC takes it. The channel uses TLS with `certificates`,
// or plaintext if they are nullptr. It has `arguments` besides those of all channels. It connects
// at its first call.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           const Certificates* certificates,
                                           grpc::ChannelArguments arguments);

}  // namespace invoker::security

#endif  // INVOKER_SRC_SECURITY_CHANNEL_H_
