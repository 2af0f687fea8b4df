// The policy file: what it means, and that mistakes in it are named with their place.

#include "src/security/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/sha256.h"

namespace invoker::security {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kDigest[] =
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";  // "test"
constexpr char kOther[] =
    "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752";  // "test2"

std::string With(const std::string& fields) {
  return std::string("# a comment\ntenant {\n  name: \"vision\"\n  token_sha256: \"") + kDigest +
         "\"\n" + fields + "}\n";
}

std::string Error(const std::string& text) {
  const absl::StatusOr<Policy> policy = Policy::Parse(text, "policy.txt");
  EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(policy.status().message());
}

TEST(GlobTest, StarsStandForAnythingAndQuestionMarksForOne) {
  for (const auto& [glob, text] :
       std::vector<std::pair<std::string, std::string>>{{"*", ""},
                                                        {"*", "resize"},
                                                        {"resize", "resize"},
                                                        {"re*", "resize"},
                                                        {"*size", "resize"},
                                                        {"r*i*e", "resize"},
                                                        {"*s*", "resize"},
                                                        {"r?size", "resize"},
                                                        {"**", "x"},
                                                        {"a*b*c", "aXbXbXc"},
                                                        {"image.*", "image.crop"}}) {
    EXPECT_TRUE(MatchesGlob(glob, text)) << glob << " " << text;
  }
  for (const auto& [glob, text] :
       std::vector<std::pair<std::string, std::string>>{{"", "resize"},
                                                        {"resize", "resize2"},
                                                        {"resize", "resiz"},
                                                        {"re*", "are"},
                                                        {"?", ""},
                                                        {"?", "ab"},
                                                        {"a*b", "abc"},
                                                        {"[rs]esize", "resize"},
                                                        {"RESIZE", "resize"}}) {
    EXPECT_FALSE(MatchesGlob(glob, text)) << glob << " " << text;
  }
}

TEST(PolicyTest, WhatIsNotGivenIsNotAllowed) {
  const auto policy = Policy::Parse(With(""), "policy.txt");
  ASSERT_TRUE(policy.ok()) << policy.status();
  ASSERT_EQ(policy->tenants().size(), 1u);
  const Tenant& tenant = *policy->tenants()[0];
  EXPECT_EQ(tenant.name, "vision");
  EXPECT_FALSE(tenant.MayCall("resize"));
  EXPECT_FALSE(tenant.may_upload_libraries || tenant.may_upload_python);
  EXPECT_FALSE(tenant.sees_others_usage || tenant.contributes_usage);
  EXPECT_EQ(tenant.max_cores, Tenant::kNoLimit);
  EXPECT_EQ(tenant.max_ttl, absl::InfiniteDuration());
}

TEST(PolicyTest, EveryFieldIsRead) {
  const auto policy =
      Policy::Parse(With("  max_leases: 3\n  max_sessions: 7\n  max_cores: 0\n  max_memory: "
                         "\"16G\"\n  max_ttl: \"90s\"\n"
                         "  upload: \"python\"\n  function: \"resize\"\n  function: \"image.*\"\n"
                         "  sees_others_usage: true\n  contributes_usage: true\n"),
                    "policy.txt");
  ASSERT_TRUE(policy.ok()) << policy.status();
  const Tenant& tenant = *policy->tenants()[0];
  EXPECT_EQ(tenant.max_leases, 3u);
  EXPECT_EQ(tenant.max_sessions, 7u);
  EXPECT_EQ(tenant.max_cores, 0u);
  EXPECT_EQ(tenant.max_memory_bytes, uint64_t{16} << 30);
  EXPECT_EQ(tenant.max_ttl, absl::Seconds(90));
  EXPECT_TRUE(tenant.may_upload_python && !tenant.may_upload_libraries);
  EXPECT_TRUE(tenant.MayCall("resize") && tenant.MayCall("image.crop"));
  EXPECT_FALSE(tenant.MayCall("crop"));
  EXPECT_TRUE(tenant.sees_others_usage && tenant.contributes_usage);
  const std::string words = policy->Explain();
  for (const char* part : {"tenant \"vision\"", "its token", "at most 3 at a time", "at most 7",
                           "at most 0", "17179869184 bytes", "1m30s", "resize, or image.*",
                           "Python functions", "everybody", "to this server's counters"}) {
    EXPECT_THAT(words, HasSubstr(part));
  }
  // What a token is known by is nobody's business either.
  EXPECT_THAT(words, Not(HasSubstr(kDigest)));
}

TEST(PolicyTest, TenantsAreKnownByTokenOrCertificate) {
  const auto policy = Policy::Parse(
      With("") +
          "tenant { name: 'sound' certificate_subject: 'CN=s,O=E' certificate_name: 's.e' }\n"
          "tenant { name: 'guest' anyone: true }\n",
      "policy.txt");
  ASSERT_TRUE(policy.ok()) << policy.status();
  const auto name = [&policy](const Shown& shown) {
    const auto tenant = policy->Identify(shown);
    return tenant == nullptr ? "nobody" : tenant->name;
  };
  const Sha256Digest right = *Sha256Digest::FromHex(kDigest);
  const Sha256Digest wrong = *Sha256Digest::FromHex(kOther);
  EXPECT_EQ(name({&right, "", {}}), "vision");
  EXPECT_EQ(name({nullptr, "CN=s,O=E", {}}), "sound");
  EXPECT_EQ(name({nullptr, "CN=x", {"x.e", "s.e"}}), "sound");
  EXPECT_EQ(name({nullptr, "CN=x", {"x.e"}}), "guest");
  EXPECT_EQ(name({}), "guest");
  // A token that is nobody's is no guest's, and no certificate makes up for it.
  EXPECT_EQ(name({&wrong, "CN=s,O=E", {}}), "nobody");
}

TEST(PolicyTest, MistakesAreNamedWithFileLineAndField) {
  EXPECT_THAT(Error("tenant {\n  nmae: \"x\"\n}\n"),
              AllOf(StartsWith("policy.txt:2:"), HasSubstr("nmae")));
  EXPECT_THAT(Error(With("  max_cores: many\n")),
              AllOf(StartsWith("policy.txt:5:"), HasSubstr("many")));
  EXPECT_THAT(Error(With("  upload: \"everything\"\n")),
              AllOf(StartsWith("policy.txt:5:"), HasSubstr("everything")));
  EXPECT_THAT(Error(With("  max_memory: \"lots\"\n")),
              AllOf(StartsWith("policy.txt:5:"), HasSubstr("max_memory of tenant \"vision\""),
                    HasSubstr("16G")));
  EXPECT_THAT(Error(With("\n  max_ttl: \"-1s\"\n")),
              AllOf(StartsWith("policy.txt:6:"), HasSubstr("max_ttl"), HasSubstr("1h")));
  EXPECT_THAT(Error(With("  function: \"\"\n")),
              AllOf(StartsWith("policy.txt:5:"), HasSubstr("function")));
  EXPECT_THAT(Error(With("  token_sha256: \"abc\"\n")),
              AllOf(StartsWith("policy.txt:5:"), HasSubstr("invoker policy hash")));
  EXPECT_THAT(Error("tenant {\n  name: \"\"\n  anyone: true\n}\n"),
              AllOf(StartsWith("policy.txt:2:"), HasSubstr("name")));
  EXPECT_THAT(Error("tenant {\n  name: \"x\"\n}\n"),
              AllOf(StartsWith("policy.txt:2:"), HasSubstr("nobody's")));
  EXPECT_THAT(Error("tenant {"), StartsWith("policy.txt:"));
}

TEST(PolicyTest, NothingMayStandTwice) {
  EXPECT_THAT(Error(With("") + With("")),
              AllOf(StartsWith("policy.txt:8:"), HasSubstr("name of tenant \"vision\"")));
  EXPECT_THAT(Error(With("") + "tenant {\n  name: \"b\"\n  token_sha256: \"" + kDigest + "\"\n}\n"),
              AllOf(StartsWith("policy.txt:8:"), HasSubstr("token_sha256 of tenant \"b\"")));
  EXPECT_THAT(Error("tenant { name: 'a' anyone: true }\ntenant { name: 'b' anyone: true }\n"),
              AllOf(StartsWith("policy.txt:2:"), HasSubstr("anyone")));
}

TEST(PolicyTest, AnEmptyPolicyLetsNobodyIn) {
  const auto policy = Policy::Parse("", "policy.txt");
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->Identify({}), nullptr);
  EXPECT_THAT(policy->Explain(), HasSubstr("nobody"));
}

}  // namespace
}  // namespace invoker::security
