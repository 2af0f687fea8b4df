// The data that an executor stores: requests, memory, and who keeps what.

#include "src/invoke/executor/store/data_store.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/invoke/wire/store_request.h"

namespace invoker {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRoom = 1 << 20;

DataId Id(int number) {
  DataId id = {};
  id[0] = static_cast<std::byte>(number);
  return id;
}

std::vector<std::byte> PutOf(int number, const std::string& type, const std::string& value) {
  std::vector<std::byte> request(PutHeadBytes(type) + value.size());
  EncodePutHead(Id(number), type, request.data());
  std::memcpy(request.data() + PutHeadBytes(type), value.data(), value.size());
  return request;
}

std::string ValueOf(const StoredData& data) {
  return {reinterpret_cast<const char*>(data.value().data()), data.value().size()};
}

class DataStoreTest : public testing::Test {
 protected:
  absl::Status Put(int number, const std::string& value) {
    return store_.Do(StoreOperation::kPut, PutOf(number, "bytes", value));
  }
  absl::Status Free(int number) { return store_.Do(StoreOperation::kFree, Id(number)); }

  const std::shared_ptr<BulkBudget> budget_ = std::make_shared<BulkBudget>(kRoom);
  DataStore store_{budget_};
};

TEST(StoreRequest, APutIsReadAsItWasWritten) {
  const std::vector<std::byte> request = PutOf(7, "f64[:]", "value");
  PutRequest put;
  ASSERT_TRUE(DecodePut(request, &put));
  EXPECT_EQ(put.id, Id(7));
  EXPECT_EQ(put.type, "f64[:]");
  EXPECT_EQ(put.value.size(), 5u);
  EXPECT_EQ((put.value.data() - request.data()) % 8, 0);
}

TEST(StoreRequest, WhatIsCutShortIsNone) {
  const std::vector<std::byte> request = PutOf(7, "f64[:]", "");
  PutRequest put;
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_FALSE(DecodePut({request.data(), size}, &put)) << size;
  }
  std::vector<std::byte> wrong = request;
  for (const uint64_t length : {uint64_t{0}, uint64_t{9}, uint64_t{1025}, UINT64_MAX}) {
    std::memcpy(&wrong[sizeof(DataId)], &length, sizeof(length));
    EXPECT_FALSE(DecodePut(wrong, &put)) << length;
  }
}

TEST_F(DataStoreTest, DataIsFoundUntilItIsFreed) {
  ASSERT_TRUE(Put(1, "one").ok());
  ASSERT_TRUE(Put(2, "two").ok());
  EXPECT_EQ(store_.size(), 2u);
  EXPECT_EQ(store_.Find(Id(3)), nullptr);
  const std::shared_ptr<const StoredData> one = store_.Find(Id(1));
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->type(), "bytes");
  ASSERT_TRUE(Free(1).ok());
  EXPECT_EQ(store_.Find(Id(1)), nullptr);
  // The one who has it keeps it.
  EXPECT_EQ(ValueOf(*one), "one");
  EXPECT_EQ(ValueOf(*store_.Find(Id(2))), "two");
  // It may have been freed by a client that does not know.
  EXPECT_TRUE(Free(1).ok());
}

TEST_F(DataStoreTest, DataTakesItsMemoryFromLargePayloads) {
  ASSERT_TRUE(Put(1, std::string(kRoom / 2, 'x')).ok());
  EXPECT_LE(budget_->limit(), kRoom / 2);
  EXPECT_EQ(budget_->used(), 0u);
  const absl::Status refused = Put(2, std::string(kRoom / 2, 'y'));
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("the executor has no room for"));
  std::shared_ptr<const StoredData> kept = store_.Find(Id(1));
  ASSERT_TRUE(Free(1).ok());
  EXPECT_FALSE(Put(2, std::string(kRoom / 2, 'y')).ok());
  kept.reset();
  EXPECT_EQ(budget_->limit(), kRoom);
  EXPECT_TRUE(Put(2, std::string(kRoom / 2, 'y')).ok());
}

TEST_F(DataStoreTest, MemoryThatIsTakenIsNotCopied) {
  const std::vector<std::byte> request = PutOf(1, "bytes", "value");
  absl::StatusOr<transport::HostBuffer> memory = transport::HostBuffer::Allocate(request.size());
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::memcpy(memory->data(), request.data(), request.size());
  const std::byte* const place = memory->data();
  BulkBudget::Share share;
  BulkBudget::Share none;
  ASSERT_TRUE(BulkBudget::Take(budget_, 1000, 0, &share, &none));
  ASSERT_TRUE(store_.Take(*std::move(memory), request.size(), std::move(share)).ok());
  EXPECT_EQ(budget_->limit(), kRoom - 1000);
  EXPECT_EQ(budget_->used(), 0u);
  EXPECT_EQ(store_.Find(Id(1))->value().data(), place + PutHeadBytes("bytes"));
  ASSERT_TRUE(Free(1).ok());
  EXPECT_EQ(budget_->limit(), kRoom);
}

TEST_F(DataStoreTest, WhatIsNoRequestIsRefused) {
  ASSERT_TRUE(Put(1, "one").ok());
  EXPECT_THAT(Put(1, "again").message(), HasSubstr("data of that reference already"));
  EXPECT_EQ(ValueOf(*store_.Find(Id(1))), "one");
  EXPECT_TRUE(absl::IsInvalidArgument(store_.Do(StoreOperation::kPut, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(store_.Do(StoreOperation::kFree, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(store_.Do(static_cast<StoreOperation>(2), Id(1))));
  const std::vector<std::byte> cut(20);
  EXPECT_TRUE(absl::IsInvalidArgument(store_.Do(StoreOperation::kPut, cut)));
  // A request that was refused keeps no memory.
  const uint64_t limit = budget_->limit();
  EXPECT_FALSE(Put(1, std::string(100000, 'x')).ok());
  EXPECT_EQ(budget_->limit(), limit);
  EXPECT_EQ(budget_->used(), 0u);
}

TEST_F(DataStoreTest, AFunctionFindsTheTypeAndTheBytes) {
  ASSERT_TRUE(Put(1, "one").ok());
  invoker_stored_data found = {};
  uint8_t id[INVOKER_REFERENCE_BYTES] = {1};
  ASSERT_NE(FindData(&store_, id, &found), nullptr);
  EXPECT_STREQ(found.type, "bytes");
  EXPECT_EQ(found.size, 3u);
  id[0] = 2;
  EXPECT_EQ(FindData(&store_, id, &found), nullptr);
  EXPECT_EQ(FindData(nullptr, id, &found), nullptr);
}

}  // namespace
}  // namespace invoker
