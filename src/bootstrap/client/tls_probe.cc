#include "src/bootstrap/client/tls_probe.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

namespace invoker::bootstrap {
namespace {

struct FreeAll {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* connection) const { SSL_free(connection); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
template <typename T>
using Owned = std::unique_ptr<T, FreeAll>;

std::vector<Owned<X509>> CertificatesIn(const std::string& pem) {
  std::vector<Owned<X509>> all;
  const Owned<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) all.emplace_back(one);
  ERR_clear_error();
  return all;
}

// Whom the certificate is for, as far as it says so in names and addresses.
std::string NamesIn(const X509* certificate) {
  std::vector<std::string> all;
  const Owned<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      all.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                       static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const unsigned char* bytes = ASN1_STRING_get0_data(name->d.iPAddress);
      all.push_back(ASN1_STRING_length(name->d.iPAddress) == 4
                        ? absl::StrJoin(std::vector<int>(bytes, bytes + 4), ".")
                        : "an IPv6 address");
    }
  }
  return all.empty() ? "no host at all" : absl::StrJoin(all, ", ");
}

// OpenSSL writes to sockets in a way that ends the process (SIGPIPE) where the other end has closed
// the connection, as a server does that has as many as it may have. Not while this lives: the
// signal is the writing thread's, and taken back.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigset_t pending;
    sigpending(&pending);
    pending_before_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec at_once = {};
    while (!pending_before_ && sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  bool pending_before_ = false;
  sigset_t pipe_;
  sigset_t before_;
};

// One connection to the target.
class Probe {
 public:
  Probe(const HostPort& target, absl::Duration timeout)
      : target_(target),
        deadline_(absl::Now() + timeout),
        context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    // Asked for only where the server wants to see a certificate and there is none to show.
    SSL_CTX_set_client_cert_cb(context_.get(), [](SSL* connection, X509**, EVP_PKEY**) {
      static_cast<Probe*>(SSL_get_app_data(connection))->asked_in_vain_ = true;
      return 0;
    });
  }
  ~Probe() {
    connection_.reset();
    if (fd_ >= 0) close(fd_);
    ERR_clear_error();
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  void Use(const TlsSettings& settings) {
    X509_STORE* store = SSL_CTX_get_cert_store(context_.get());
    for (const Owned<X509>& each : CertificatesIn(settings.certificates.authorities_pem)) {
      X509_STORE_add_cert(store, each.get());
    }
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, [](int good, X509_STORE_CTX* chain) {
      // It is gone when the handshake has failed.
      if (good == 0 && X509_STORE_CTX_get_error_depth(chain) == 0) {
        auto* connection = static_cast<SSL*>(
            X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
        static_cast<Probe*>(SSL_get_app_data(connection))->names_ =
            NamesIn(X509_STORE_CTX_get_current_cert(chain));
      }
      return good;
    });
    const std::vector<Owned<X509>> own = CertificatesIn(settings.certificates.certificate_pem);
    if (own.empty()) return;
    SSL_CTX_use_certificate(context_.get(), own.front().get());
    for (size_t i = 1; i < own.size(); ++i) SSL_CTX_add1_chain_cert(context_.get(), own[i].get());
    const std::string& key_pem = settings.certificates.key_pem;
    const Owned<BIO> bio(BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size())));
    const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
    SSL_CTX_use_PrivateKey(context_.get(), key.get());
  }

  // False if there is no connection, which is somebody else's to explain.
  bool Connect() {
    const absl::StatusOr<int> fd = OpenConnection(target_, deadline_ - absl::Now());
    if (!fd.ok()) return false;
    fd_ = *fd;
    connection_.reset(SSL_new(context_.get()));
    SSL_set_app_data(connection_.get(), this);
    SSL_set_fd(connection_.get(), fd_);
    static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
    SSL_set_alpn_protos(connection_.get(), kHttp2, sizeof(kHttp2));
    return true;
  }

  void Expect(const std::string& name) {
    X509_VERIFY_PARAM* wanted = SSL_get0_param(connection_.get());
    if (X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str()) == 1) return;
    SSL_set_tlsext_host_name(connection_.get(), name.c_str());
    SSL_set1_host(connection_.get(), name.c_str());
  }

  enum class Result { kDone, kFailed, kTimeout };

  // SSL_connect or SSL_read until it is done. What went wrong is in reason(); 0: the other end
  // closed the connection.
  template <typename Step>
  Result Run(Step step) {
    const NoBrokenPipe guard;
    while (true) {
      ERR_clear_error();
      const int got = step(connection_.get());
      if (got > 0) return Result::kDone;
      const int error = SSL_get_error(connection_.get(), got);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        reason_ = ERR_GET_REASON(ERR_peek_error());
        return Result::kFailed;
      }
      pollfd entry{fd_, static_cast<short>(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
      const int64_t left = absl::ToInt64Milliseconds(deadline_ - absl::Now()) + 1;
      if (left <= 0 || poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000))) == 0) {
        return Result::kTimeout;
      }
    }
  }

  int reason() const { return reason_; }
  bool asked_in_vain() const { return asked_in_vain_; }
  const std::string& names() const { return names_; }
  SSL* connection() { return connection_.get(); }

 private:
  const HostPort target_;
  const absl::Time deadline_;
  const Owned<SSL_CTX> context_;
  int fd_ = -1;
  Owned<SSL> connection_;
  int reason_ = 0;
  bool asked_in_vain_ = false;
  std::string names_;  // in the server's certificate, where that was not accepted
};

int Handshake(SSL* connection) { return SSL_connect(connection); }

int ReadByte(SSL* connection) {
  char byte;
  return SSL_read(connection, &byte, 1);
}

// An alert of the other side's has this added to its number.
bool IsAlert(int reason) { return reason > SSL_AD_REASON_OFFSET; }

bool IsNoTls(int reason) {
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG;
}

bool IsClosed(int reason) { return reason == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING; }

absl::Status ExplainVerification(Probe* probe, const std::string& where,
                                 const std::string& expected, const TlsSettings& settings) {
  const int64_t result = SSL_get_verify_result(probe->connection());
  const std::string whose = absl::StrCat("the certificate that ", where, " shows ");
  switch (result) {
    case X509_V_OK:
      return absl::OkStatus();
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::UnauthenticatedError(
          absl::StrCat(whose,
                       "has expired, or one that it was signed with has; the server's operator "
                       "has to renew it (or this machine's clock is wrong)"));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::UnauthenticatedError(
          absl::StrCat(whose, "is not valid yet: is this machine's clock right?"));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return absl::UnauthenticatedError(
          absl::StrCat(whose, "is for ", probe->names(), ", and not for ", expected,
                       "; connect by a name that it has, or give one of them as the server's name "
                       "(--tls-server-name, INVOKER_TLS_SERVER_NAME, tls_server_name=)"));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return absl::UnauthenticatedError(
          absl::StrCat(whose, "is not signed by any authority in ", settings.authorities_file,
                       ": that is not the file for this server, or this is not the server"));
    default:
      return absl::UnauthenticatedError(
          absl::StrCat(whose, "is not accepted: ", X509_verify_cert_error_string(result)));
  }
}

absl::Status ExplainRefusal(const Probe& probe, const std::string& where,
                            const TlsSettings& settings) {
  if (settings.certificate_file.empty()) {
    if (!probe.asked_in_vain() && !IsAlert(probe.reason())) return absl::OkStatus();
    return absl::UnauthenticatedError(absl::StrCat(
        where,
        " asks clients for a certificate, and there is none: give --tls-cert and --tls-key, "
        "INVOKER_TLS_CERT and INVOKER_TLS_KEY, or tls_cert= and tls_key="));
  }
  return absl::UnauthenticatedError(
      absl::StrCat(where, " does not accept the certificate in ", settings.certificate_file,
                   ": it is not signed by an authority that the server knows (its "
                   "--tls-client-ca), or has expired"));
}

}  // namespace

absl::Status ProbeTls(const HostPort& target, const TlsSettings& settings, absl::Duration timeout) {
  const std::string where = FormatHostPort(target);
  Probe probe(target, timeout);
  probe.Use(settings);
  if (!probe.Connect()) return absl::OkStatus();
  const std::string expected = settings.server_name.empty() ? target.host : settings.server_name;
  probe.Expect(expected);
  switch (probe.Run(&Handshake)) {
    case Probe::Result::kTimeout:
      return absl::OkStatus();
    case Probe::Result::kFailed: {
      absl::Status status = ExplainVerification(&probe, where, expected, settings);
      if (!status.ok()) return status;
      if (IsAlert(probe.reason())) return ExplainRefusal(probe, where, settings);
      if (IsClosed(probe.reason())) {
        return absl::UnavailableError(absl::StrCat(
            where,
            " closes the connection without a word of TLS: it has as many connections as it may "
            "have (--max-connections), is stopping, or is no invoker_server; try again later"));
      }
      if (!IsNoTls(probe.reason())) return absl::OkStatus();
      return absl::FailedPreconditionError(absl::StrCat(
          where,
          " does not speak TLS: it is no invoker_server, or one that was started without "
          "--tls-cert; connect in plaintext only where the network is trusted"));
    }
    case Probe::Result::kDone:
      break;
  }
  // A server that does not accept the client says so, or goes away, only now; any other begins to
  // speak HTTP/2.
  if (probe.Run(&ReadByte) != Probe::Result::kFailed) return absl::OkStatus();
  return ExplainRefusal(probe, where, settings);
}

bool SpeaksTls(const HostPort& target, absl::Duration timeout) {
  Probe probe(target, timeout);
  if (!probe.Connect()) return false;
  const Probe::Result result = probe.Run(&Handshake);
  return result == Probe::Result::kDone ||
         (result == Probe::Result::kFailed && IsAlert(probe.reason()));
}

}  // namespace invoker::bootstrap
