// Token files, certificates and keys as files, and credentials out of the environment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <cstdlib>

#include "src/security/certificates.h"
#include "src/security/client_credentials.h"
#include "src/security/token.h"
#include "src/security/watched_file.h"
#include "tests/security/test_files.h"

namespace invoker::security {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdefABCDEF-._~+/=";

TEST(TokenFileTest, ATokenStandsOnEachLine) {
  const TestFiles files;
  const std::string path =
      files.Write("tokens", std::string("# the new one\n  ") + kToken + "\r\n\n0123456789abcdef\n");
  const auto tokens = ReadTokenFile(path);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(*tokens, ElementsAre(kToken, "0123456789abcdef"));
}

TEST(TokenFileTest, WhatIsWrongIsNamedWithoutTheToken) {
  const TestFiles files;
  for (const std::string& bad :
       {std::string("0123456789abcde"), std::string(5000, 'x'), std::string("a token with blanks"),
        std::string("umlaut-\xc3\xa4-0123456789")}) {
    const std::string path = files.Write("tokens", "\n" + bad + "\n");
    const absl::Status status = ReadTokenFile(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(path + ", line 2"), Not(HasSubstr(bad))));
  }
  EXPECT_THAT(std::string(ReadTokenFile(files.Write("tokens", "# none\n")).status().message()),
              HasSubstr("openssl rand"));
  EXPECT_EQ(ReadTokenFile(files.PathOf("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadTokenFile("/dev/zero").status().message()),
              HasSubstr("not a regular file"));
}

TEST(TokenFileTest, AFileThatOthersCanReadOrChangeIsNotUsed) {
  const TestFiles files;
  for (const int mode : {0604, 0602, 0620, 0644, 0666}) {
    const absl::Status status = ReadTokenFile(files.Write("tokens", kToken, mode)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << mode;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chmod 600"));
  }
  for (const int mode : {0400, 0600, 0640}) {
    EXPECT_TRUE(ReadTokenFile(files.Write("tokens", kToken, mode)).ok()) << mode;
  }
}

TEST(WatchedFileTest, AFileThatIsReplacedHasAnotherStamp) {
  const TestFiles files;
  const std::string path = files.Write("file", "same");
  const FileStamp before = StampOf(path);
  EXPECT_TRUE(before.there);
  EXPECT_EQ(StampOf(path), before);
  files.Write("file", "same");
  EXPECT_NE(StampOf(path), before);
  EXPECT_FALSE(StampOf(files.PathOf("none")).there);
}

TEST(CertificatesTest, ACertificateItsKeyAndAuthoritiesAreRead) {
  const TestFiles files;
  const TestAuthority authority(&files, "authority");
  const IssuedFiles issued = authority.Issue("server");
  const auto loaded = LoadCertificates({issued.certificate, issued.key, authority.file()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->certificate_pem, TestFiles::Read(issued.certificate));
  EXPECT_EQ(loaded->key_pem, TestFiles::Read(issued.key));
  EXPECT_EQ(loaded->authorities_pem, TestFiles::Read(authority.file()));
  EXPECT_EQ(loaded->note, "");
}

TEST(CertificatesTest, WhatCannotBeUsedIsNamedWithoutTheKey) {
  const TestFiles files;
  const TestAuthority authority(&files, "authority");
  const IssuedFiles issued = authority.Issue("server");
  const auto error = [](const CertificatePaths& paths) {
    const absl::Status status = LoadCertificates(paths).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("PRIVATE KEY-----\nM")));
    return std::string(status.message());
  };
  EXPECT_THAT(error({issued.key, issued.key, ""}), HasSubstr("has no certificate in PEM form"));
  EXPECT_THAT(error({issued.certificate, issued.certificate, ""}), HasSubstr("mode"));
  const std::string no_key = files.Write("no.key", "nothing");
  EXPECT_THAT(error({issued.certificate, no_key, ""}), HasSubstr("is no private key"));
  EXPECT_THAT(error({issued.certificate, authority.Issue("other").key, ""}),
              HasSubstr("is not that of the certificate"));
  const std::string broken = files.Write(
      "broken.pem", TestFiles::Read(issued.certificate) + "-----BEGIN CERTIFICATE-----\nx\n");
  EXPECT_THAT(error({"", "", broken}), HasSubstr("broken after 1"));

  EVP_PKEY* key = EVP_EC_gen("P-256");
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, EVP_aes_128_cbc(), nullptr, 0, nullptr,
                           const_cast<char*>("passphrase"));
  char* data = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio, &data));
  const std::string locked = files.Write("locked.key", std::string(data, size));
  BIO_free(bio);
  EVP_PKEY_free(key);
  EXPECT_THAT(error({issued.certificate, locked, ""}), HasSubstr("is encrypted"));
}

// Sets variables for its lifetime.
class Environment {
 public:
  using Values = std::vector<std::pair<const char*, std::string>>;

  explicit Environment(const Values& values) {
    for (const char* name : kNames) unsetenv(name);
    for (const auto& [name, value] : values) setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : kNames) unsetenv(name);
  }

 private:
  static constexpr const char* kNames[] = {"INVOKER_TLS_CA",     "INVOKER_TLS_CERT",
                                           "INVOKER_TLS_KEY",    "INVOKER_TLS_SERVER_NAME",
                                           "INVOKER_TOKEN_FILE", "INVOKER_PLAINTEXT"};
};

TEST(ClientCredentialsTest, WhatIsNotGivenComesFromTheEnvironment) {
  const Environment environment(Environment::Values{{"INVOKER_TLS_CA", "env.ca"},
                                                    {"INVOKER_TOKEN_FILE", "env.token"},
                                                    {"INVOKER_TLS_CERT", "env.pem"},
                                                    {"INVOKER_TLS_KEY", "env.key"}});
  auto all = Complete({});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->tls_ca, "env.ca");
  EXPECT_EQ(all->tls_cert, "env.pem");
  EXPECT_EQ(all->token_file, "env.token");
  ClientCredentials given;
  given.tls_ca = "my.ca";
  given.tls_cert = "my.pem";
  given.tls_key = "my.key";
  given.token_file = "my.token";
  all = Complete(given);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->tls_ca, "my.ca");
  EXPECT_EQ(all->tls_key, "my.key");
  EXPECT_EQ(all->token_file, "my.token");
  ClientCredentials plain;
  plain.plaintext = true;
  all = Complete(plain);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_FALSE(all->tls());
  EXPECT_TRUE(all->plaintext);
}

TEST(ClientCredentialsTest, ContradictionsAreNamed) {
  const auto error = [](const ClientCredentials& given) {
    const absl::Status status = Complete(given).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  ClientCredentials given;
  given.tls_cert = "my.pem";
  given.tls_ca = "my.ca";
  EXPECT_THAT(error(given), HasSubstr("--tls-key"));
  given.tls_key = "my.key";
  given.tls_ca = "";
  EXPECT_THAT(error(given), HasSubstr("--tls-ca"));
  given.tls_ca = "my.ca";
  given.plaintext = true;
  EXPECT_THAT(error(given), HasSubstr("--plaintext"));
  {
    const Environment environment(
        Environment::Values{{"INVOKER_TLS_CA", "env.ca"}, {"INVOKER_PLAINTEXT", "1"}});
    EXPECT_THAT(error({}), HasSubstr("INVOKER_PLAINTEXT=1"));
  }
  const Environment environment(Environment::Values{{"INVOKER_PLAINTEXT", "yes"}});
  EXPECT_THAT(error({}), HasSubstr("\"yes\""));
}

}  // namespace
}  // namespace invoker::security
