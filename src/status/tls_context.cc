#include "src/status/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace invoker::status {
namespace {

template <typename T, void (*kFree)(T*)>
struct Freed {
  void operator()(T* it) const { kFree(it); }
};
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Store = std::unique_ptr<X509_STORE, Freed<X509_STORE, X509_STORE_free>>;
using Bio = std::unique_ptr<BIO, Freed<BIO, BIO_free_all>>;
using Names = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES, GENERAL_NAMES_free>>;

Bio BioOf(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

std::vector<Certificate> CertificatesOf(const std::string& pem) {
  const Bio bio = BioOf(pem);
  std::vector<Certificate> all;
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) all.emplace_back(one);
  ERR_clear_error();
  return all;
}

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

}  // namespace

absl::Status TlsContext::Load() {
  stamps_ = security::StampsOf(paths_);
  absl::StatusOr<security::Certificates> loaded = security::LoadCertificates(paths_);
  if (!loaded.ok()) return loaded.status();
  current_ = std::make_shared<const security::Certificates>(*std::move(loaded));
  return absl::OkStatus();
}

void TlsContext::Use(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cert_cb(context, &TlsContext::OnHandshake, this);
  // A connection is not resumed: a certificate may have been taken from the authorities since.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
}

// One that has become unusable leaves the ones from before in force, as on the bootstrap's port,
// which reports it.
std::shared_ptr<const security::Certificates> TlsContext::Current() {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<security::FileStamp> now = security::StampsOf(paths_);
  if (now != stamps_) {
    absl::StatusOr<security::Certificates> loaded = security::LoadCertificates(paths_);
    if (loaded.ok()) {
      current_ = std::make_shared<const security::Certificates>(*std::move(loaded));
      stamps_ = now;
    }
  }
  return current_;
}

int TlsContext::OnHandshake(SSL* connection, void* self) {
  TlsContext* const context = static_cast<TlsContext*>(self);
  return context->Apply(*context->Current(), connection).ok() ? 1 : 0;
}

absl::Status TlsContext::Apply(const security::Certificates& certificates, SSL* connection) const {
  const std::vector<Certificate> chain = CertificatesOf(certificates.certificate_pem);
  const Bio key_bio = BioOf(certificates.key_pem);
  const Key key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  const auto failed = [] {
    ERR_clear_error();
    return absl::FailedPreconditionError("OpenSSL does not take the certificate");
  };
  if (chain.empty() || key == nullptr) return failed();
  if (SSL_use_certificate(connection, chain.front().get()) != 1 ||
      SSL_use_PrivateKey(connection, key.get()) != 1) {
    return failed();
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_add1_chain_cert(connection, chain[i].get()) != 1) return failed();
  }
  if (paths_.authorities.empty()) return absl::OkStatus();
  const Store store(X509_STORE_new());
  for (const Certificate& authority : CertificatesOf(certificates.authorities_pem)) {
    X509_STORE_add_cert(store.get(), authority.get());
  }
  if (SSL_set1_verify_cert_store(connection, store.get()) != 1) return failed();
  SSL_set_verify(connection, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

security::Shown ShownOn(const SSL* connection) {
  security::Shown shown;
  if (connection == nullptr || SSL_get_verify_result(connection) != X509_V_OK) return shown;
  const Certificate certificate(SSL_get1_peer_certificate(connection));
  if (certificate == nullptr) return shown;
  // In gRPC's spelling, which policies are written for.
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate.get()), 0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  shown.certificate_subject.assign(text, static_cast<size_t>(size));
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS || name->type == GEN_URI || name->type == GEN_EMAIL) {
      shown.certificate_names.push_back(TextOf(name->d.ia5));
    }
  }
  return shown;
}

}  // namespace invoker::status
