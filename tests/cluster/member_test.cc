// Members of a cluster, as etcd keeps them.

#include "src/cluster/member.h"

#include "gtest/gtest.h"

namespace invoker::cluster {
namespace {

TEST(MemberTest, AMemberIsReadAsItWasWritten) {
  Member member;
  member.server = "10.0.0.2:7000";
  member.incarnation = 0xa1;
  member.version = "1.2";
  member.fabrics = {"x", "y"};
  member.executors = 3;
  member.cores = 4;
  member.memory_bytes = uint64_t{1} << 40;
  member.python = true;
  member.functions = {"echo", "a \"name\""};
  member.labels = {{"zone", "a"}, {"", "=\n"}};
  const auto read = ParseMember(ToJson(member));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->server, member.server);
  EXPECT_EQ(read->incarnation, member.incarnation);
  EXPECT_EQ(read->version, member.version);
  EXPECT_EQ(read->fabrics, member.fabrics);
  EXPECT_EQ(read->executors, member.executors);
  EXPECT_EQ(read->cores, member.cores);
  EXPECT_EQ(read->memory_bytes, member.memory_bytes);
  EXPECT_EQ(read->python, member.python);
  EXPECT_EQ(read->functions, member.functions);
  EXPECT_EQ(read->labels, member.labels);
}

TEST(MemberTest, WhatALaterReleaseAddsIsSkipped) {
  const auto member = ParseMember(
      R"({"server":"a:1","incarnation":"00000000000000ff","shape":{"round":true},"cores":2})");
  ASSERT_TRUE(member.ok()) << member.status();
  EXPECT_EQ(member->incarnation, 255u);
  EXPECT_EQ(member->cores, 2u);
}

TEST(MemberTest, WhatIsNoMemberIsRefused) {
  for (const char* json : {"", "{", "[]", "null", "7", "{}", R"({"server":"a:1"})",
                           R"({"server":"a","incarnation":"00000000000000ff"})",
                           R"({"server":"a:1","incarnation":"ff"})",
                           R"({"server":"a:1","incarnation":"0000000000000000"})",
                           R"({"server":"a:1","incarnation":"00000000000000fg"})",
                           R"({"server":"a:1","incarnation":"00000000000000ff","cores":-1})",
                           R"({"server":"a:1","incarnation":"00000000000000ff","functions":{}})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseMember(json).status())) << json;
  }
}

TEST(LoadTest, ALoadIsReadAsItWasWritten) {
  const Load load = {3, uint64_t{1} << 33, 7};
  EXPECT_EQ(ParseLoad(ToJson(load)).value(), load);
  EXPECT_EQ(ParseLoad("{}").value(), Load());
  EXPECT_TRUE(absl::IsInvalidArgument(ParseLoad("x").status()));
}

TEST(MemberTest, KeysHaveTheClustersName) {
  EXPECT_EQ(MembersPrefix("c"), "/invoker/c/members/");
  EXPECT_EQ(LoadsPrefix("c"), "/invoker/c/loads/");
  EXPECT_EQ(FormatIncarnation(0xab), "00000000000000ab");
}

}  // namespace
}  // namespace invoker::cluster
