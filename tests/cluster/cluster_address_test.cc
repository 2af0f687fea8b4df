// How people name the workers of a group.

#include "src/cluster/cluster_address.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace invoker::cluster {
namespace {

TEST(EtcdAddressTest, EndpointsAndANameAreRead) {
  const auto address = ParseEtcdAddress("etcd://10.0.0.2:2000,db.example,[::1]:3,[::2]/render.1");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->name, "render.1");
  EXPECT_EQ(FormatEtcdAddress(*address),
            "etcd://10.0.0.2:2000,db.example:2379,[::1]:3,[::2]:2379/render.1");
  EXPECT_TRUE(IsEtcdAddress("etcd://x/y"));
  EXPECT_FALSE(IsEtcdAddress("10.0.0.2:2000"));
}

TEST(EtcdAddressTest, WhatMakesNoSenseIsRefused) {
  const std::string long_name(65, 'x');
  for (const std::string& text :
       {std::string("http://a/b"), std::string("etcd://"), std::string("etcd://a"),
        std::string("etcd://a/"), std::string("etcd:///b"), std::string("etcd://a,,b/c"),
        std::string("etcd://a/b/c"), std::string("etcd://a/b c"), std::string("etcd://a:b/c"),
        absl::StrCat("etcd://a/", long_name)}) {
    const absl::Status status = ParseEtcdAddress(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
  }
}

TEST(FileAddressTest, APathBeginsAtTheRoot) {
  EXPECT_TRUE(IsFileAddress("file:///a"));
  EXPECT_EQ(ParseFileAddress("file:///a/b").value(), "/a/b");
  EXPECT_TRUE(absl::IsInvalidArgument(ParseFileAddress("file://a/b").status()));
}

TEST(ServerListTest, GapsAndRepetitionsAreRefused) {
  EXPECT_EQ(ParseServerList(" a:1, b:2").value(), (std::vector<std::string>{"a:1", "b:2"}));
  for (const char* text : {"", "a:1,", ",a:1", "a:1,a:1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseServerList(text).status())) << text;
  }
}

TEST(ServerFileTest, LinesHaveServersAndComments) {
  const auto servers = ParseServerFile("f", "# two\na:1\n\n  b:2  # the other\r\n");
  ASSERT_TRUE(servers.ok()) << servers.status();
  EXPECT_EQ(*servers, (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_TRUE(ParseServerFile("f", "").value().empty());
}

TEST(ServerFileTest, AMistakeIsNamedWithItsLine) {
  for (const char* text : {"a:1\nb\n", "a:1\na:1\n"}) {
    const absl::Status status = ParseServerFile("list", text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "list:2")) << status;
  }
}

}  // namespace
}  // namespace invoker::cluster
