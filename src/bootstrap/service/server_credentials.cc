#include "src/bootstrap/service/server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/service/caller.h"
#include "src/log/log.h"
#include "src/security/token.h"

namespace invoker::bootstrap {
namespace {

// Asked by what watches over servers and knows no token. It tells that the server is there.
// Ends when it has been answered, unlike Watch, of which anybody could have as many as he likes.
constexpr char kHealthPath[] = "/grpc.health.v1.Health/Check";
constexpr char kPathKey[] = ":path";

absl::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

void LogNote(const security::Certificates& certificates) {
  if (!certificates.note.empty()) LogWarning(certificates.note);
}

// Lives as long as gRPC's credentials, which call it from any thread.
class Port {
 public:
  explicit Port(const PortSecurity& security) : security_(security) {}

  absl::Status LoadFirst() {
    stamps_ = security::StampsOf(security_.tls);
    absl::StatusOr<security::Certificates> loaded = security::LoadCertificates(security_.tls);
    if (!loaded.ok()) return loaded.status();
    LogNote(*loaded);
    first_ = *std::move(loaded);
    return absl::OkStatus();
  }

  bool has_tls() const { return !security_.tls.certificate.empty(); }
  bool asks_for_certificates() const { return !security_.tls.authorities.empty(); }

  // At the start, and then at each handshake.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<Port*>(self)->Fetch(config);
  }

  static void Process(void* self, grpc_auth_context* connection, const grpc_metadata* metadata,
                      size_t count, grpc_process_auth_metadata_done_cb done, void* done_data) {
    const absl::Status status = static_cast<Port*>(self)->Check(*connection, metadata, count);
    done(done_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()),
         status.ok() ? nullptr : std::string(status.message()).c_str());
  }

  static void Destroy(void* self) { delete static_cast<Port*>(self); }

 private:
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config) {
    std::lock_guard<std::mutex> lock(mutex_);
    absl::StatusOr<security::Certificates> loaded = std::exchange(first_, {});
    if (loaded->certificate_pem.empty()) {
      const std::vector<security::FileStamp> now = security::StampsOf(security_.tls);
      if (now == stamps_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
      loaded = security::LoadCertificates(security_.tls);
      const bool again = !loaded.ok() && security::WorthAnotherTry(loaded.status());
      const bool told = std::exchange(waiting_, again);
      if (!again) stamps_ = now;
      if (!loaded.ok()) {
        if (!again || !told) {
          LogError(absl::StrCat(loaded.status().message(),
                                "; connections go on with the certificates from before"));
        }
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
      }
      LogInfo(absl::StrCat("certificates read again: ", security_.tls.certificate));
      LogNote(*loaded);
    }
    grpc_ssl_pem_key_cert_pair pair = {loaded->key_pem.c_str(), loaded->certificate_pem.c_str()};
    // gRPC wants some authorities also where it asks for no certificate, and does nothing with
    // them.
    const std::string& roots =
        asks_for_certificates() ? loaded->authorities_pem : loaded->certificate_pem;
    *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  absl::Status Check(const grpc_auth_context& connection, const grpc_metadata* metadata,
                     size_t count) {
    absl::string_view path;
    absl::string_view authorization;
    for (size_t i = 0; i < count; ++i) {
      const absl::string_view key = View(metadata[i].key);
      if (key == kPathKey) path = View(metadata[i].value);
      // CallerOf takes neither of two.
      if (key == security::kTokenMetadata) {
        authorization = authorization.empty() ? View(metadata[i].value) : "twice";
      }
    }
    if (path == kHealthPath) return absl::OkStatus();
    return security_.access->Identify(authorization, CertificateOf(&connection)).status();
  }

  const PortSecurity security_;
  std::mutex mutex_;
  std::vector<security::FileStamp> stamps_;  // the files that were read, or are no good
  bool waiting_ = false;                     // they could not be read, and that has been told
  security::Certificates first_;             // until gRPC has taken it
};

class PortCredentials final : public grpc::ServerCredentials {
 public:
  explicit PortCredentials(std::unique_ptr<Port> port) {
    if (port->has_tls()) {
      credentials_ = grpc_ssl_server_credentials_create_with_options(
          grpc_ssl_server_credentials_create_options_using_config_fetcher(
              port->asks_for_certificates()
                  ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                  : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
              &Port::Fetch, port.get()));
    } else {
      credentials_ = grpc_insecure_server_credentials_create();
    }
    // It goes with the last use of the credentials.
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_, {&Port::Process, &Port::Destroy, port.release()});
  }
  ~PortCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const PortSecurity& security) {
  const bool asked = security.access != nullptr && security.access->required();
  if (security.tls.certificate.empty() && !asked) return grpc::InsecureServerCredentials();
  static security::AccessControl* const open_to_all =
      security::AccessControl::Open({}).value().release();
  PortSecurity complete = security;
  if (!asked) complete.access = open_to_all;
  auto port = std::make_unique<Port>(complete);
  if (port->has_tls()) {
    if (absl::Status status = port->LoadFirst(); !status.ok()) return status;
  }
  return std::shared_ptr<grpc::ServerCredentials>(new PortCredentials(std::move(port)));
}

}  // namespace invoker::bootstrap
