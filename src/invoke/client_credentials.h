// How a client shows a server who it is, and makes sure who the server is. A value.

#ifndef INVOKER_SRC_INVOKE_CLIENT_CREDENTIALS_H_
#define INVOKER_SRC_INVOKE_CLIENT_CREDENTIALS_H_

#include <string>

namespace invoker {

// Empty fields are taken from the environment: INVOKER_TLS_CA, INVOKER_TLS_CERT, INVOKER_TLS_KEY,
// INVOKER_TLS_SERVER_NAME, INVOKER_TOKEN_FILE, and INVOKER_PLAINTEXT=1. All are names of files but
// for the server's name and the last. With a CA or a certificate the connection is TLS.
struct ClientCredentials {
  std::string tls_ca;    // PEM: who may have signed the server's certificate
  std::string tls_cert;  // PEM: the client's own chain, for servers that ask for one
  std::string tls_key;   // PEM, readable by nobody else
  // The name that the server's certificate must have, where that is not the host connected to.
  std::string tls_server_name;
  std::string token_file;  // its first line that is not empty and no comment is the token
  // Connect without TLS, and send the token, also beyond this machine's loopback interface.
  bool plaintext = false;

  bool tls() const { return !tls_ca.empty() || !tls_cert.empty(); }
};

// How to show etcd who one is, where it knows the members of a cluster, and to make sure that it is
// etcd. Empty fields are taken from the environment: INVOKER_CLUSTER_TLS_CA,
// INVOKER_CLUSTER_TLS_CERT, INVOKER_CLUSTER_TLS_KEY, INVOKER_CLUSTER_PASSWORD_FILE, and
// INVOKER_CLUSTER_PLAINTEXT=1. With a CA the connection is TLS. Files are read once.
struct ClusterCredentials {
  std::string tls_ca;         // PEM: who may have signed etcd's certificates
  std::string tls_cert;       // PEM: the own chain, where etcd asks for one
  std::string tls_key;        // PEM, readable by nobody else
  std::string password_file;  // readable by nobody else; its first line is "USER:PASSWORD"
  // Connect without TLS, and send the password, also beyond this machine's loopback interface.
  bool plaintext = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_CREDENTIALS_H_
