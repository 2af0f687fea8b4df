#include "tools/security_options.h"

namespace invoker::tools {
namespace {

// A server's second role, or the program's only one.
std::string Of(const std::string& prefix, const std::string& help) {
  return prefix.empty() ? help : help + ", for the server of --usage-to";
}

}  // namespace

void AddCredentialOptions(CLI::App* app, const std::string& prefix,
                          ClientCredentials* credentials) {
  const std::string option = "--" + prefix;
  app->add_option(option + "tls-ca", credentials->tls_ca,
                  Of(prefix,
                     "certificates of the authorities that sign the server's (PEM): the connection "
                     "is encrypted. By default INVOKER_TLS_CA"))
      ->type_name("FILE");
  app->add_option(option + "tls-cert", credentials->tls_cert,
                  Of(prefix,
                     "the client's own certificate (PEM), for servers that ask for one. By default "
                     "INVOKER_TLS_CERT"))
      ->type_name("FILE");
  app->add_option(option + "tls-key", credentials->tls_key,
                  Of(prefix, "its private key (PEM, mode 600). By default INVOKER_TLS_KEY"))
      ->type_name("FILE");
  app->add_option(option + "tls-server-name", credentials->tls_server_name,
                  Of(prefix,
                     "the name that the server's certificate has, where that is not the host. By "
                     "default INVOKER_TLS_SERVER_NAME"))
      ->type_name("NAME");
  app->add_option(option + "token-file", credentials->token_file,
                  Of(prefix,
                     "a file (mode 600) whose first line is the token to show. By default "
                     "INVOKER_TOKEN_FILE"))
      ->type_name("FILE");
  app->add_flag(option + "plaintext", credentials->plaintext,
                Of(prefix,
                   "connect without encryption also beyond this machine, on a trusted network. By "
                   "default if INVOKER_PLAINTEXT=1"));
}

void AddClusterCredentialOptions(CLI::App* app, ClusterCredentials* credentials) {
  app->add_option("--cluster-tls-ca", credentials->tls_ca,
                  "certificates of the authorities that sign etcd's (PEM): the connection to it is "
                  "encrypted. By default INVOKER_CLUSTER_TLS_CA")
      ->type_name("FILE");
  app->add_option("--cluster-tls-cert", credentials->tls_cert,
                  "a certificate to show etcd (PEM), where it asks for one. By default "
                  "INVOKER_CLUSTER_TLS_CERT")
      ->type_name("FILE");
  app->add_option("--cluster-tls-key", credentials->tls_key,
                  "its private key (PEM, mode 600). By default INVOKER_CLUSTER_TLS_KEY")
      ->type_name("FILE");
  app->add_option("--cluster-password-file", credentials->password_file,
                  "a file (mode 600) whose first line is USER:PASSWORD, for etcd. By default "
                  "INVOKER_CLUSTER_PASSWORD_FILE")
      ->type_name("FILE");
  app->add_flag(
      "--cluster-plaintext", credentials->plaintext,
      "connect to etcd without encryption also beyond this machine, on a trusted network. "
      "By default if INVOKER_CLUSTER_PLAINTEXT=1");
}

}  // namespace invoker::tools
