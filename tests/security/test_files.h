// Files that tests of security make while they run: certificates with their keys, tokens, policies.
// Nothing secret is in the tree. Each TestFiles has a directory of its own, which goes with it.

#ifndef INVOKER_TESTS_SECURITY_TEST_FILES_H_
#define INVOKER_TESTS_SECURITY_TEST_FILES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace invoker::security {

class TestFiles {
 public:
  TestFiles();
  ~TestFiles();
  TestFiles(const TestFiles&) = delete;
  TestFiles& operator=(const TestFiles&) = delete;

  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }
  // By rename, as files that are in use should be replaced. Returns the path.
  std::string Write(const std::string& name, const std::string& text, int mode = 0600) const;
  static std::string Read(const std::string& path);

 private:
  std::string directory_;
};

// A pair of files.
struct IssuedFiles {
  std::string certificate;
  std::string key;
};

// Signs certificates of elliptic-curve keys, which are made in no time.
class TestAuthority {
 public:
  // Its own certificate is the file `name`.pem.
  TestAuthority(const TestFiles* files, const std::string& name);
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  const std::string& file() const { return file_; }

  struct Subject {
    std::string organization = "Example";
    std::string common_name = "server";
    std::string names = "IP:127.0.0.1,DNS:localhost";  // subject alternative names
    long valid_from_s = -3600;                         // from now
    long valid_until_s = 3600;
  };
  // The files `name`.pem and `name`.key, replaced if they are there.
  IssuedFiles Issue(const std::string& name, const Subject& subject) const;
  IssuedFiles Issue(const std::string& name) const { return Issue(name, Subject()); }

 private:
  const TestFiles* const files_;
  EVP_PKEY* key_;
  X509* certificate_;
  std::string file_;
};

}  // namespace invoker::security

#endif  // INVOKER_TESTS_SECURITY_TEST_FILES_H_
