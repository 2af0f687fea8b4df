#include "tests/security/test_files.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace invoker::security {
namespace {

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string PemOf(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  return TextOf(bio);
}

std::string PemOf(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return TextOf(bio);
}

void AddName(X509_NAME* name, const char* field, const std::string& value) {
  X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.c_str()), -1, -1, 0);
}

void AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(const TestAuthority::Subject& subject, EVP_PKEY* key) {
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial));
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), subject.valid_from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate), subject.valid_until_s);
  X509_set_pubkey(certificate, key);
  AddName(X509_get_subject_name(certificate), "O", subject.organization);
  AddName(X509_get_subject_name(certificate), "CN", subject.common_name);
  return certificate;
}

}  // namespace

TestFiles::TestFiles() {
  const char* base = getenv("TEST_TMPDIR");
  directory_ = std::string(base != nullptr ? base : "/tmp") + "/security_XXXXXX";
  if (mkdtemp(directory_.data()) == nullptr) abort();
}

TestFiles::~TestFiles() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string TestFiles::Write(const std::string& name, const std::string& text, int mode) const {
  const std::string path = PathOf(name);
  const std::string fresh = path + ".new";
  std::ofstream(fresh, std::ios::binary) << text;
  chmod(fresh.c_str(), static_cast<mode_t>(mode));
  if (rename(fresh.c_str(), path.c_str()) != 0) abort();
  return path;
}

std::string TestFiles::Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TestAuthority::TestAuthority(const TestFiles* files, const std::string& name)
    : files_(files), key_(EVP_EC_gen("P-256")) {
  Subject subject;
  subject.common_name = name;
  certificate_ = NewCertificate(subject, key_);
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  AddExtension(certificate_, certificate_, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate_, certificate_, NID_key_usage, "critical,keyCertSign");
  X509_sign(certificate_, key_, EVP_sha256());
  file_ = files_->Write(name + ".pem", PemOf(certificate_), 0644);
}

TestAuthority::~TestAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

IssuedFiles TestAuthority::Issue(const std::string& name, const Subject& subject) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = NewCertificate(subject, key);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate_));
  AddExtension(certificate, certificate_, NID_subject_alt_name, subject.names);
  X509_sign(certificate, key_, EVP_sha256());
  IssuedFiles issued;
  issued.key = files_->Write(name + ".key", PemOf(key), 0600);
  issued.certificate = files_->Write(name + ".pem", PemOf(certificate), 0644);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return issued;
}

}  // namespace invoker::security
