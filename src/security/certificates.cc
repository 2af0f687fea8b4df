#include "src/security/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace invoker::security {
namespace {

template <typename T, void (*Free)(T*)>
struct Freed {
  void operator()(T* object) const { Free(object); }
};
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;

Bio Over(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// A key that wants a passphrase gets none: OpenSSL would ask for it at the terminal.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

// All of a file's. Errors of OpenSSL's queue are not ours to keep.
absl::StatusOr<std::vector<Certificate>> ParseAll(const std::string& what, const std::string& path,
                                                  const std::string& pem) {
  std::vector<Certificate> all;
  const Bio bio = Over(pem);
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) all.emplace_back(one);
  // After the last one there is no further beginning, which is no error; anything else is.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!all.empty() && at_end) return all;
  return absl::FailedPreconditionError(
      absl::StrCat(what, " ", path,
                   all.empty() ? " has no certificate in PEM form (-----BEGIN CERTIFICATE-----)"
                               : absl::StrCat(" is broken after ", all.size(), " certificates")));
}

std::string ValidityNote(const std::string& path, const X509& certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(&certificate)) < 0) {
    return absl::StrCat("the certificate ", path, " has expired: the other side will refuse it");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(&certificate)) > 0) {
    return absl::StrCat("the certificate ", path,
                        " is not valid yet: the other side will refuse it");
  }
  return "";
}

absl::StatusOr<Key> ParseKey(const std::string& path, const std::string& pem) {
  bool encrypted = false;
  const Bio bio = Over(pem);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassphrase, &encrypted));
  ERR_clear_error();
  if (key != nullptr) return key;
  return absl::FailedPreconditionError(absl::StrCat(
      "the private key ", path,
      encrypted ? " is encrypted, and there is nobody to ask for its passphrase; write it without "
                  "one (openssl pkey -in FILE -out NEW), and with mode 600"
                : " is no private key in PEM form (-----BEGIN PRIVATE KEY-----)"));
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm fields = {};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return absl::InfinitePast();
  return absl::FromTM(fields, absl::UTCTimeZone());
}

std::string SubjectOf(const X509& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_ONELINE);
  char* text = nullptr;
  const int64_t size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

}  // namespace

absl::StatusOr<std::vector<CertificateDates>> ReadDates(const std::string& path) {
  const std::string what = "the file of certificates";
  const absl::StatusOr<std::string> pem = ReadWholeFile(what, path, Secrecy::kPublic);
  if (!pem.ok()) return pem.status();
  const absl::StatusOr<std::vector<Certificate>> all = ParseAll(what, path, *pem);
  if (!all.ok()) return all.status();
  std::vector<CertificateDates> dates;
  for (const Certificate& each : *all) {
    dates.push_back({SubjectOf(*each), TimeOf(X509_get0_notBefore(each.get())),
                     TimeOf(X509_get0_notAfter(each.get()))});
  }
  return dates;
}

absl::StatusOr<Certificates> LoadCertificates(const CertificatePaths& paths) {
  Certificates loaded;
  if (!paths.certificate.empty()) {
    absl::StatusOr<std::string> pem =
        ReadWholeFile("the certificate", paths.certificate, Secrecy::kPublic);
    if (!pem.ok()) return pem.status();
    absl::StatusOr<std::vector<Certificate>> chain =
        ParseAll("the certificate", paths.certificate, *pem);
    if (!chain.ok()) return chain.status();
    absl::StatusOr<std::string> key_pem =
        ReadWholeFile("the private key", paths.key, Secrecy::kSecret);
    if (!key_pem.ok()) return key_pem.status();
    absl::StatusOr<Key> key = ParseKey(paths.key, *key_pem);
    if (!key.ok()) return key.status();
    const bool match = X509_check_private_key(chain->front().get(), key->get()) == 1;
    ERR_clear_error();
    if (!match) {
      return absl::FailedPreconditionError(
          absl::StrCat("the private key ", paths.key, " is not that of the certificate ",
                       paths.certificate, ", whose own certificate must come first"));
    }
    loaded.note = ValidityNote(paths.certificate, *chain->front());
    loaded.certificate_pem = *std::move(pem);
    loaded.key_pem = *std::move(key_pem);
  }
  if (!paths.authorities.empty()) {
    const std::string what = "the file of authorities";
    absl::StatusOr<std::string> pem = ReadWholeFile(what, paths.authorities, Secrecy::kPublic);
    if (!pem.ok()) return pem.status();
    if (absl::Status status = ParseAll(what, paths.authorities, *pem).status(); !status.ok()) {
      return status;
    }
    loaded.authorities_pem = *std::move(pem);
  }
  return loaded;
}

std::vector<FileStamp> StampsOf(const CertificatePaths& paths) {
  std::vector<FileStamp> stamps;
  for (const std::string* path : {&paths.certificate, &paths.key, &paths.authorities}) {
    stamps.push_back(path->empty() ? FileStamp() : StampOf(*path));
  }
  return stamps;
}

}  // namespace invoker::security
