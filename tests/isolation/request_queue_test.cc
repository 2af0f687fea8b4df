#include "src/isolation/process/request_queue.h"

#include <fcntl.h>

#include <cstdint>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace invoker {
namespace {

ExecutorRequest Numbered(uint64_t id) {
  ExecutorRequest request;
  request.message.set_id(id);
  request.message.mutable_forget_window();
  return request;
}

bool Put(RequestQueue* queue, ExecutorRequest request) { return queue->Put(&request); }

TEST(RequestQueueTest, GivesThemInTheirOrder) {
  RequestQueue queue(3);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(Put(&queue, Numbered(id)));
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(queue.Take().message.id(), id);
}

TEST(RequestQueueTest, OneTooManyStaysWithWhoBringsIt) {
  RequestQueue queue(2);
  EXPECT_TRUE(Put(&queue, Numbered(1)));
  EXPECT_TRUE(Put(&queue, Numbered(2)));
  ExecutorRequest refused = Numbered(3);
  refused.fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(queue.Put(&refused));
  EXPECT_EQ(refused.message.id(), 3u);
  ASSERT_EQ(refused.fds.size(), 1u);
  EXPECT_GE(refused.fds.front().get(), 0);
  EXPECT_EQ(queue.Take().message.id(), 1u);
  EXPECT_TRUE(queue.Put(&refused));
  EXPECT_EQ(queue.Take().message.id(), 2u);
  EXPECT_EQ(queue.Take().message.id(), 3u);
}

TEST(RequestQueueTest, OneToStopIsTakenHoweverManyWait) {
  RequestQueue queue(1);
  EXPECT_TRUE(Put(&queue, Numbered(1)));
  ExecutorRequest stop;
  stop.message.mutable_stop();
  EXPECT_TRUE(queue.Put(&stop));
  EXPECT_EQ(queue.Take().message.id(), 1u);
  EXPECT_TRUE(queue.Take().message.has_stop());
}

TEST(RequestQueueTest, WaitsForOne) {
  RequestQueue queue(1);
  std::thread other([&] { EXPECT_TRUE(Put(&queue, Numbered(7))); });
  EXPECT_EQ(queue.Take().message.id(), 7u);
  other.join();
}

}  // namespace
}  // namespace invoker
