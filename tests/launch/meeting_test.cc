#include "src/launch/meeting.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace invoker::launch {
namespace {

class MeetingTest : public testing::Test {
 protected:
  MeetingTest() {
    folder_ = testing::TempDir() + "/meeting-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = MeetingPath(folder_, "42.0");
  }
  ~MeetingTest() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  static Meeting Example() {
    return {"etcd://10.0.0.1:2379/job", {"10.0.0.1", 4711}, "the certificate\n", "the key\n"};
  }

  std::string folder_;
  std::string path_;
};

TEST_F(MeetingTest, TheTasksReadWhatTheFirstOneHasWritten) {
  EXPECT_TRUE(absl::IsNotFound(ReadMeeting(path_).status()));
  ASSERT_TRUE(WriteMeeting(path_, Example()).ok());
  const absl::StatusOr<Meeting> meeting = ReadMeeting(path_);
  ASSERT_TRUE(meeting.ok()) << meeting.status();
  EXPECT_EQ(meeting->cluster, "etcd://10.0.0.1:2379/job");
  EXPECT_EQ(meeting->first.host, "10.0.0.1");
  EXPECT_EQ(meeting->first.port, 4711);
  EXPECT_EQ(meeting->certificate, "the certificate\n");
  EXPECT_EQ(meeting->key, "the key\n");
  struct stat about;
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(MeetingTest, ALaterTryReplacesAnEarlierOne) {
  ASSERT_TRUE(WriteMeeting(path_, Example()).ok());
  Meeting later = Example();
  later.first.port = 4712;
  ASSERT_TRUE(WriteMeeting(path_, later).ok());
  EXPECT_EQ(ReadMeeting(path_)->first.port, 4712);
}

TEST_F(MeetingTest, WhatOthersCouldHaveWrittenIsNotBelieved) {
  ASSERT_TRUE(WriteMeeting(path_, Example()).ok());
  chmod(path_.c_str(), 0660);
  EXPECT_TRUE(absl::IsPermissionDenied(ReadMeeting(path_).status()));
  unlink(path_.c_str());
  ASSERT_EQ(symlink("/etc/passwd", path_.c_str()), 0);
  EXPECT_FALSE(ReadMeeting(path_).ok());
}

TEST_F(MeetingTest, NonsenseIsRefused) {
  for (const char* text :
       {"", "{", "[]", "{\"cluster\": 3}", "{\"cluster\": \"c\", \"first\": \"no port\"}"}) {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), 0600);
    EXPECT_TRUE(absl::IsInvalidArgument(ReadMeeting(path_).status())) << text;
    unlink(path_.c_str());
  }
}

TEST_F(MeetingTest, AFolderThatIsNotThereIsNamed) {
  const absl::Status status = WriteMeeting(MeetingPath("/no such folder", "1.0"), Example());
  EXPECT_NE(status.message().find("/no such folder"), std::string::npos) << status;
}

}  // namespace
}  // namespace invoker::launch
