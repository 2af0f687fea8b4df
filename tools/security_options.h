// Options of security, as far as several programs or roles have them: what a client shows a server,
// and what it knows the server by.

#ifndef INVOKER_TOOLS_SECURITY_OPTIONS_H_
#define INVOKER_TOOLS_SECURITY_OPTIONS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "invoker/client_credentials.h"

namespace invoker::tools {

// Their long names; their variables are read where connections are made.
inline constexpr const char* kCredentialOptions[] = {"tls-ca",          "tls-cert",   "tls-key",
                                                     "tls-server-name", "token-file", "plaintext"};

// --tls-ca, --tls-cert, --tls-key, --tls-server-name, --token-file and --plaintext; with `prefix`
// "usage_": --usage-tls-ca and so on. What is not given is taken from the environment later
// (security::Complete), so that a token's file need not be named in every command.
void AddCredentialOptions(CLI::App* app, const std::string& prefix, ClientCredentials* credentials);

// For etcd, where it knows the members of a cluster.
void AddClusterCredentialOptions(CLI::App* app, ClusterCredentials* credentials);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_SECURITY_OPTIONS_H_
