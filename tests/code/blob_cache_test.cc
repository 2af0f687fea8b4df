// The cache of uploaded files: what stays, what goes, and what is found out about damaged ones.

#include "src/code/blob_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kBlock = 4096;

Sha256Digest Hash(absl::string_view bytes) {
  absl::StatusOr<Sha256Digest> digest = HashOf(bytes);
  EXPECT_TRUE(digest.ok()) << digest.status();
  return *digest;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// The contents of a file that takes so many blocks.
std::string Contents(int which, int blocks = 1) {
  std::string contents(blocks * kBlock - 1, static_cast<char>('a' + which));
  return contents + std::to_string(which % 10);
}

class BlobCacheTest : public testing::Test {
 protected:
  BlobCacheTest() {
    std::string name = testing::TempDir() + "/blob_cache_test_XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    parent_ = name;
    options_.directory = parent_ + "/cache";
    options_.capacity_bytes = 4 * kBlock;
  }
  ~BlobCacheTest() override {
    cache_.reset();
    std::filesystem::remove_all(parent_);
  }

  // Again, as the next process would.
  void Open() {
    cache_.reset();
    absl::StatusOr<std::unique_ptr<BlobCache>> cache = BlobCache::Open(options_);
    ASSERT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
  }

  absl::StatusOr<BlobCache::Pin> Put(const std::string& contents) {
    absl::StatusOr<std::unique_ptr<BlobCache::Incoming>> incoming =
        cache_->Begin(Hash(contents), contents.size());
    if (!incoming.ok()) return incoming.status();
    const size_t half = contents.size() / 2;
    if (absl::Status status = (*incoming)->Append(contents.substr(0, half)); !status.ok()) {
      return status;
    }
    if (absl::Status status = (*incoming)->Append(contents.substr(half)); !status.ok()) {
      return status;
    }
    return (*incoming)->Commit();
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(options_.directory)) {
      if (entry.path().filename() != "lock") names.push_back(entry.path().filename());
    }
    return names;
  }

  std::string PathOf(const std::string& contents) const {
    return options_.directory + "/" + Hash(contents).ToHex();
  }

  std::string parent_;
  BlobCacheOptions options_;
  std::unique_ptr<BlobCache> cache_;
};

TEST_F(BlobCacheTest, AFileIsThereWholeOrNotAtAll) {
  Open();
  const std::string contents = Contents(0);
  EXPECT_FALSE(cache_->Has(Hash(contents)));
  EXPECT_TRUE(absl::IsNotFound(cache_->Get(Hash(contents)).status()));
  {
    auto incoming = cache_->Begin(Hash(contents), contents.size());
    ASSERT_TRUE(incoming.ok()) << incoming.status();
    ASSERT_TRUE((*incoming)->Append(contents.substr(1)).ok());
    EXPECT_FALSE(cache_->Has(Hash(contents)));
    EXPECT_EQ(cache_->used_bytes(), kBlock);
  }
  // Dropped in the middle.
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(cache_->used_bytes(), 0u);

  auto pin = Put(contents);
  ASSERT_TRUE(pin.ok()) << pin.status();
  EXPECT_EQ(pin->path(), PathOf(contents));
  EXPECT_EQ(pin->size(), contents.size());
  EXPECT_EQ(ReadFile(pin->path()), contents);
  EXPECT_TRUE(cache_->Has(Hash(contents)));
  auto again = cache_->Get(Hash(contents));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->path(), pin->path());
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(BlobCacheTest, NobodyElseFindsTheFilesAndNobodyWritesThem) {
  Open();
  const std::string path = Put(Contents(0))->path();
  struct stat info;
  ASSERT_EQ(stat(options_.directory.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0444u);
}

TEST_F(BlobCacheTest, WhatIsNotAsAnnouncedLeavesNothing) {
  Open();
  const std::string contents = Contents(0);
  const auto Begin = [&](uint64_t size) {
    auto incoming = cache_->Begin(Hash(contents), size);
    EXPECT_TRUE(incoming.ok()) << incoming.status();
    return *std::move(incoming);
  };
  {
    auto few = Begin(contents.size() + 1);
    ASSERT_TRUE(few->Append(contents).ok());
    const absl::Status status = few->Commit().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("4096 of the 4097"));
  }
  {
    auto many = Begin(contents.size() - 1);
    const absl::Status status = many->Append(contents);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
  {
    auto other = Begin(contents.size());
    ASSERT_TRUE(other->Append(Contents(1)).ok());
    const absl::Status status = other->Commit().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(Hash(contents).ToHex()));
    EXPECT_THAT(status.message(), HasSubstr(Hash(Contents(1)).ToHex()));
  }
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(cache_->used_bytes(), 0u);
  EXPECT_TRUE(absl::IsInvalidArgument(cache_->Begin(Hash(""), 0).status()));
}

TEST_F(BlobCacheTest, WhatWasNotUsedForLongestMakesRoom) {
  Open();
  for (int which = 0; which < 4; ++which) ASSERT_TRUE(Put(Contents(which)).ok());
  EXPECT_EQ(cache_->used_bytes(), options_.capacity_bytes);
  ASSERT_TRUE(cache_->Get(Hash(Contents(0))).ok());
  ASSERT_TRUE(Put(Contents(4, 2)).ok());
  EXPECT_TRUE(cache_->Has(Hash(Contents(0))));
  EXPECT_FALSE(cache_->Has(Hash(Contents(1))));
  EXPECT_FALSE(cache_->Has(Hash(Contents(2))));
  EXPECT_TRUE(cache_->Has(Hash(Contents(3))));
  EXPECT_TRUE(cache_->Has(Hash(Contents(4, 2))));
  EXPECT_EQ(Files().size(), 3u);
  EXPECT_EQ(cache_->used_bytes(), options_.capacity_bytes);
}

TEST_F(BlobCacheTest, AFileInUseStays) {
  Open();
  auto pin = Put(Contents(0));
  ASSERT_TRUE(pin.ok());
  for (int which = 1; which < 20; ++which) ASSERT_TRUE(Put(Contents(which)).ok());
  EXPECT_EQ(ReadFile(pin->path()), Contents(0));
  {
    auto another = cache_->Get(Hash(Contents(19)));
    ASSERT_TRUE(another.ok());
    const absl::Status full = Put(Contents(20, 3)).status();
    EXPECT_TRUE(absl::IsAborted(full)) << full;
    EXPECT_TRUE(cache_->Has(Hash(Contents(19))));
  }
  EXPECT_TRUE(Put(Contents(20, 3)).ok());
  EXPECT_TRUE(cache_->Has(Hash(Contents(0))));
}

TEST_F(BlobCacheTest, AFileLargerThanTheCacheIsRefusedAtOnce) {
  Open();
  ASSERT_TRUE(Put(Contents(0)).ok());
  for (const uint64_t size : {options_.capacity_bytes + 1, UINT64_MAX}) {
    const absl::Status status = cache_->Begin(Hash("x"), size).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(size)));
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(options_.capacity_bytes)));
  }
  EXPECT_TRUE(cache_->Has(Hash(Contents(0))));
  EXPECT_TRUE(Put(Contents(1, 4)).ok());
}

TEST_F(BlobCacheTest, UploadsUnderWayTakeRoomToo) {
  Open();
  auto first = cache_->Begin(Hash(Contents(0, 3)), 3 * kBlock);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsAborted(cache_->Begin(Hash(Contents(1, 2)), 2 * kBlock).status()));
  first->reset();
  EXPECT_TRUE(cache_->Begin(Hash(Contents(1, 2)), 2 * kBlock).ok());
}

TEST_F(BlobCacheTest, AnUploadThatStandsStillGivesWay) {
  options_.stalled_after = absl::ZeroDuration();
  Open();
  auto still = cache_->Begin(Hash(Contents(0, 3)), 3 * kBlock);
  ASSERT_TRUE(still.ok());
  ASSERT_TRUE((*still)->Append(Contents(0)).ok());
  ASSERT_TRUE(Put(Contents(1, 2)).ok());
  const absl::Status status = (*still)->Append(Contents(0));
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  still->reset();
  EXPECT_EQ(cache_->used_bytes(), 2 * kBlock);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(BlobCacheTest, TooManyUploadsAtATimeAreRefused) {
  options_.capacity_bytes = 1000 * kBlock;
  Open();
  std::vector<std::unique_ptr<BlobCache::Incoming>> uploads;
  absl::Status status;
  while (status.ok() && uploads.size() < 1000) {
    auto incoming = cache_->Begin(Hash(absl::StrCat(uploads.size())), 1);
    status = incoming.status();
    if (status.ok()) uploads.push_back(*std::move(incoming));
  }
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_GE(uploads.size(), 8u);
  uploads.pop_back();
  EXPECT_TRUE(cache_->Begin(Hash("x"), 1).ok());
}

TEST_F(BlobCacheTest, WhereThereAreTooManyUploadsThoseThatStandStillGiveWay) {
  options_.capacity_bytes = 1000 * kBlock;
  options_.stalled_after = absl::ZeroDuration();
  Open();
  constexpr size_t kUploads = 200;  // more than there may be at a time
  std::vector<std::unique_ptr<BlobCache::Incoming>> uploads;
  size_t told = 0;
  for (size_t i = 0; i < kUploads; ++i) {
    auto incoming = cache_->Begin(Hash(absl::StrCat(i)), 1, [&told] { ++told; });
    ASSERT_TRUE(incoming.ok()) << i << ": " << incoming.status();
    uploads.push_back(*std::move(incoming));
  }
  size_t gone = 0;
  for (const auto& upload : uploads) gone += absl::IsAborted(upload->Append("x")) ? 1 : 0;
  EXPECT_GT(gone, 0u);
  EXPECT_LE(gone, kUploads - 8);
  EXPECT_EQ(told, gone);
  EXPECT_TRUE(uploads.back()->Append("").ok());
  EXPECT_EQ(cache_->used_bytes(), (kUploads - gone) * kBlock);
}

TEST_F(BlobCacheTest, UploadsThatGaveWayAreNotCounted) {
  options_.stalled_after = absl::ZeroDuration();
  Open();
  std::vector<std::unique_ptr<BlobCache::Incoming>> uploads;
  for (int i = 0; i < 200; ++i) {
    // Each needs all the room that there is.
    auto incoming = cache_->Begin(Hash(absl::StrCat(i)), 4 * kBlock);
    ASSERT_TRUE(incoming.ok()) << i << ": " << incoming.status();
    uploads.push_back(*std::move(incoming));
  }
  EXPECT_EQ(cache_->used_bytes(), 4 * kBlock);
  EXPECT_TRUE(absl::IsAborted(uploads.front()->Append("x")));
  EXPECT_TRUE(uploads.back()->Append("x").ok());
  uploads.clear();
  EXPECT_EQ(cache_->used_bytes(), 0u);
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(BlobCacheTest, ItSurvivesTheProcessAndKnowsWhatWasUsedLast) {
  Open();
  for (int which = 0; which < 3; ++which) {
    ASSERT_TRUE(Put(Contents(which)).ok());
    // Makes a while pass in between: the clock of a file system may be a slow one.
    const timespec times[2] = {{1000 + which, 0}, {1000 + which, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, PathOf(Contents(which)).c_str(), times, 0), 0);
  }
  ASSERT_TRUE(cache_->Get(Hash(Contents(0))).ok());
  Open();
  EXPECT_EQ(cache_->files(), 3u);
  EXPECT_EQ(cache_->used_bytes(), 3 * kBlock);
  // Not believed before somebody has read it.
  EXPECT_FALSE(cache_->Has(Hash(Contents(2))));
  ASSERT_TRUE(cache_->Get(Hash(Contents(2))).ok());
  EXPECT_TRUE(cache_->Has(Hash(Contents(2))));

  // Smaller than before: the least recently used one of all goes.
  options_.capacity_bytes = 2 * kBlock;
  Open();
  EXPECT_TRUE(cache_->Get(Hash(Contents(0))).ok());
  EXPECT_TRUE(absl::IsNotFound(cache_->Get(Hash(Contents(1))).status()));
  EXPECT_TRUE(cache_->Get(Hash(Contents(2))).ok());
}

TEST_F(BlobCacheTest, WhatACrashLeftInTheMiddleOfAnUploadIsRemoved) {
  Open();
  ASSERT_TRUE(Put(Contents(0)).ok());
  cache_.reset();
  std::ofstream(options_.directory + "/incoming-17") << "half of a libr";
  std::ofstream(options_.directory + "/somebody's notes") << "not ours to remove";
  std::ofstream(options_.directory + "/" + std::string(64, '0')).close();
  ASSERT_EQ(symlink("/etc/passwd", (options_.directory + "/" + std::string(64, '1')).c_str()), 0);
  Open();
  EXPECT_EQ(cache_->files(), 1u);
  EXPECT_FALSE(std::filesystem::exists(options_.directory + "/incoming-17"));
  EXPECT_TRUE(std::filesystem::exists(options_.directory + "/somebody's notes"));
  EXPECT_TRUE(absl::IsNotFound(cache_->Get(*Sha256Digest::FromHex(std::string(64, '1'))).status()));
  EXPECT_TRUE(cache_->Get(Hash(Contents(0))).ok());
}

TEST_F(BlobCacheTest, ADamagedFileIsFoundOutAndCanBeUploadedAgain) {
  const std::string contents = Contents(0);
  for (const bool same_size : {true, false}) {
    Open();
    ASSERT_TRUE(Put(contents).ok());
    std::string damaged = contents;
    if (same_size) {
      damaged.front() ^= 1;
    } else {
      damaged.pop_back();
    }
    ASSERT_EQ(chmod(PathOf(contents).c_str(), 0600), 0);
    std::ofstream(PathOf(contents), std::ios::binary | std::ios::trunc) << damaged;

    const absl::Status status = cache_->Get(Hash(contents)).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("damaged"));
    EXPECT_FALSE(cache_->Has(Hash(contents)));
    EXPECT_THAT(Files(), IsEmpty());
    ASSERT_TRUE(Put(contents).ok());
    EXPECT_TRUE(cache_->Get(Hash(contents)).ok());
  }
}

TEST_F(BlobCacheTest, AnUploadReplacesWhatAnEarlierProcessLeftDamaged) {
  const std::string contents = Contents(0);
  Open();
  ASSERT_TRUE(Put(contents).ok());
  cache_.reset();
  ASSERT_EQ(chmod(PathOf(contents).c_str(), 0600), 0);
  std::ofstream(PathOf(contents), std::ios::binary | std::ios::trunc) << Contents(1);
  Open();
  EXPECT_FALSE(cache_->Has(Hash(contents)));
  auto pin = Put(contents);
  ASSERT_TRUE(pin.ok()) << pin.status();
  EXPECT_EQ(ReadFile(pin->path()), contents);
  EXPECT_EQ(cache_->used_bytes(), kBlock);
}

TEST_F(BlobCacheTest, ManyMayUploadAndUseTheSameAtOnce) {
  constexpr int kThreads = 8, kRounds = 50, kFiles = 6;
  options_.capacity_bytes = 12 * kBlock;  // less than all of them may want, but enough for each
  Open();
  std::atomic<int> used{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < kRounds; ++round) {
        const std::string contents = Contents((thread + round) % kFiles);
        auto pin = round % 3 == 0 ? Put(contents) : cache_->Get(Hash(contents));
        if (!pin.ok()) {
          // Somebody else's are in the way, or it is not there.
          EXPECT_TRUE(absl::IsNotFound(pin.status()) || absl::IsAborted(pin.status()))
              << pin.status();
          continue;
        }
        EXPECT_EQ(ReadFile(pin->path()), contents);
        ++used;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(used, 0);
  EXPECT_LE(cache_->files(), static_cast<size_t>(kFiles));
  EXPECT_EQ(Files().size(), cache_->files());
  EXPECT_EQ(cache_->used_bytes(), cache_->files() * kBlock);
}

TEST_F(BlobCacheTest, OneProcessAtATimeHasTheDirectory) {
  Open();
  const absl::Status status = BlobCache::Open(options_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(options_.directory));
  EXPECT_THAT(status.message(), HasSubstr("another process"));
}

TEST_F(BlobCacheTest, ADirectoryThatOthersCanWriteToIsRefused) {
  ASSERT_EQ(mkdir(options_.directory.c_str(), 0700), 0);
  ASSERT_EQ(chmod(options_.directory.c_str(), 0770), 0);
  absl::Status status = BlobCache::Open(options_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  ASSERT_EQ(chmod(options_.directory.c_str(), 0755), 0);
  EXPECT_TRUE(BlobCache::Open(options_).ok());

  // A file, or a link to who knows where.
  options_.directory = parent_ + "/file";
  std::ofstream(options_.directory).close();
  EXPECT_FALSE(BlobCache::Open(options_).ok());
  options_.directory = parent_ + "/link";
  ASSERT_EQ(symlink(parent_.c_str(), options_.directory.c_str()), 0);
  EXPECT_FALSE(BlobCache::Open(options_).ok());
}

TEST_F(BlobCacheTest, ATemporaryOneGoesWithTheCache) {
  options_.directory.clear();
  std::string directory;
  {
    auto cache = BlobCache::Open(options_);
    ASSERT_TRUE(cache.ok()) << cache.status();
    directory = (*cache)->directory();
    EXPECT_TRUE(std::filesystem::is_directory(directory));
    auto incoming = (*cache)->Begin(Hash("some code"), 9);
    ASSERT_TRUE(incoming.ok());
    ASSERT_TRUE((*incoming)->Append("some code").ok());
    EXPECT_TRUE((*incoming)->Commit().ok());
  }
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(Sha256Test, ItIsSha256) {
  // FIPS 180-4's examples.
  EXPECT_EQ(Hash("abc").ToHex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hash("").ToHex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  hash.Update("a");
  hash.Update("");
  hash.Update("bc");
  EXPECT_EQ(*hash.Finish(), Hash("abc"));
}

TEST(Sha256Test, DigestsAreReadBackFromBytesAndHex) {
  const Sha256Digest digest = Hash("abc");
  EXPECT_EQ(Sha256Digest::FromHex(digest.ToHex()), digest);
  EXPECT_EQ(Sha256Digest::FromBytes(digest.ToBytes()), digest);
  EXPECT_FALSE(Sha256Digest::FromBytes("too short").has_value());
  EXPECT_FALSE(Sha256Digest::FromHex(digest.ToHex() + "0").has_value());
  EXPECT_FALSE(Sha256Digest::FromHex(std::string(64, 'g')).has_value());
  EXPECT_FALSE(Sha256Digest::FromHex(std::string(64, 'A')).has_value());
}

}  // namespace
}  // namespace invoker
