#include "invoker/notification.h"

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

TEST(Notification, NamesAreTheSpellingOfTheFlag) {
  EXPECT_EQ(NotificationName(Notification::kAuto), "auto");
  EXPECT_EQ(NotificationName(Notification::kWriteImm), "write_imm");
  EXPECT_EQ(NotificationName(Notification::kSendAfterWrite), "send_after_write");
}

TEST(Notification, EveryNameParsesToItself) {
  for (Notification notification :
       {Notification::kAuto, Notification::kWriteImm, Notification::kSendAfterWrite}) {
    Notification parsed =
        notification == Notification::kAuto ? Notification::kWriteImm : Notification::kAuto;
    EXPECT_TRUE(ParseNotification(NotificationName(notification), &parsed));
    EXPECT_EQ(parsed, notification);
  }
}

TEST(Notification, AnythingElseIsRefusedAndChangesNothing) {
  for (const char* text : {"", "Auto", "write-imm", "write_imm ", "unknown"}) {
    Notification parsed = Notification::kSendAfterWrite;
    EXPECT_FALSE(ParseNotification(text, &parsed)) << text;
    EXPECT_EQ(parsed, Notification::kSendAfterWrite);
  }
}

TEST(Notification, ValueOfNoEnumeratorHasAName) {
  EXPECT_EQ(NotificationName(static_cast<Notification>(77)), "unknown");
}

}  // namespace
}  // namespace invoker::transport
