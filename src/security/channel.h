// A gRPC channel to a server that may be hostile, or come and go.

#ifndef INVOKER_SRC_SECURITY_CHANNEL_H_
#define INVOKER_SRC_SECURITY_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

#include "src/security/certificates.h"

namespace invoker::security {

// To `target`, a name of gRPC's: with TLS where there are `certificates`, and without where that is
// null. `arguments` come on top of those that all channels have. Connects when it is used.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           const Certificates* certificates,
                                           grpc::ChannelArguments arguments);

}  // namespace invoker::security

#endif  // INVOKER_SRC_SECURITY_CHANNEL_H_
