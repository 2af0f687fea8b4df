// Uploads through a real server on loopback: what it takes, what it refuses, and what the host
// behind it gets to load.

#include "src/code/code_service.h"

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/code/upload_client.h"
#include "tests/bootstrap/fake_host.h"

namespace invoker {
namespace {
using bootstrap::kPatience;
using testing::HasSubstr;

// Loads every file, and says what was in it.
class LoadingHost final : public bootstrap::FakeHost {
 public:
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Load(uint64_t lease, const std::string& path,
                                                            CodeKind kind,
                                                            const std::string& name) override {
    if (before_load) before_load();
    std::ifstream file(path, std::ios::binary);
    const std::string contents((std::istreambuf_iterator<char>(file)), {});
    std::lock_guard<std::mutex> lock(mutex_);
    if (!refusal.ok()) return refusal;
    if (evictions > 0) {
      --evictions;
      return absl::NotFoundError("the file has just gone");
    }
    last_lease_ = lease;
    functions_.push_back({absl::StrCat(kind == CodeKind::kPython ? "python " : "library ", name,
                                       " of ", contents.size(), " bytes")});
    hashes_.push_back(*HashOf(contents));
    return functions_;
  }

  uint64_t last_lease() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_lease_;
  }
  std::vector<Sha256Digest> hashes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return hashes_;
  }

  std::function<void()> before_load;  // set while nothing is loaded
  absl::Status refusal;
  int evictions = 0;  // loads that fail as if the file had gone

 private:
  mutable std::mutex mutex_;
  uint64_t last_lease_ = 0;
  std::vector<bootstrap::FunctionInfo> functions_;
  std::vector<Sha256Digest> hashes_;
};

std::string Code(size_t bytes, char salt = 'x') {
  std::string code(bytes, salt);
  for (size_t i = 0; i < bytes; i += 997) code[i] = static_cast<char>(i / 997 + salt);
  return code;
}

class CodeServiceTest : public testing::Test {
 protected:
  void Start(UploadPolicy policy, uint64_t capacity = 1 << 20,
             absl::Duration stalled_after = absl::Seconds(10)) {
    BlobCacheOptions cache_options;
    cache_options.stalled_after = stalled_after;
    cache_options.capacity_bytes = capacity;
    auto cache = BlobCache::Open(cache_options);
    ASSERT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
    bootstrap::ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.services = {MakeCodeService(cache_.get(), policy)};
    auto server = bootstrap::Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = bootstrap::BootstrapClient::Connect(server_->listen_address(), kPatience);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    lease_ = TakeLease();
  }

  std::unique_ptr<bootstrap::Lease> TakeLease() {
    auto lease = bootstrap::Lease::Acquire(client_.get(), {}, {}, kPatience);
    EXPECT_TRUE(lease.ok()) << lease.status();
    return lease.ok() ? *std::move(lease) : nullptr;
  }

  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Bring(const std::string& code,
                                                             CodeKind kind = CodeKind::kLibrary,
                                                             const std::string& name = "f.so") {
    return UploadAndLoad(client_.get(), lease_->id(), code, kind, name, kPatience);
  }

  // Chunks as they are given, from a client that is not ours.
  grpc::Status UploadRaw(const std::vector<bootstrap::v1::UploadChunk>& chunks) {
    auto stub = bootstrap::v1::Code::NewStub(
        grpc::CreateChannel(server_->listen_address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    bootstrap::v1::UploadReply reply;
    auto writer = stub->Upload(&context, &reply);
    for (const bootstrap::v1::UploadChunk& chunk : chunks) {
      if (!writer->Write(chunk)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  bootstrap::v1::UploadChunk FirstChunk(const std::string& code) {
    bootstrap::v1::UploadChunk chunk;
    chunk.set_lease(lease_->id());
    chunk.set_sha256(HashOf(code)->ToBytes());
    chunk.set_size(code.size());
    return chunk;
  }

  LoadingHost host_;
  std::unique_ptr<BlobCache> cache_;
  std::unique_ptr<bootstrap::Server> server_;
  std::unique_ptr<bootstrap::BootstrapClient> client_;
  std::unique_ptr<bootstrap::Lease> lease_;
};

TEST_F(CodeServiceTest, AFileArrivesAsItIsAndIsLoaded) {
  Start(UploadPolicy::kAll);
  for (const size_t bytes : {1, 47 << 10, (48 << 10) + 1, 300'000}) {
    const std::string code = Code(bytes);
    auto functions = Bring(code, CodeKind::kLibrary, "libf.so");
    ASSERT_TRUE(functions.ok()) << functions.status();
    EXPECT_EQ(functions->back().name, absl::StrCat("library libf.so of ", bytes, " bytes"));
    EXPECT_EQ(host_.hashes().back(), *HashOf(code));
    EXPECT_EQ(host_.last_lease(), lease_->id());
  }
  auto python = Bring(Code(100), CodeKind::kPython, "square");
  ASSERT_TRUE(python.ok()) << python.status();
  EXPECT_EQ(python->size(), 5u);
  EXPECT_EQ(python->back().name, "python square of 100 bytes");
}

TEST_F(CodeServiceTest, WhatTheWorkerHasIsNotSentAgain) {
  Start(UploadPolicy::kAll);
  const std::string code = Code(1000);
  const std::string sha256 = HashOf(code)->ToBytes();
  auto first = client_->Upload(lease_->id(), sha256, code, kPatience);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(*first);
  // Nor by another lease; the bytes are not even looked at.
  auto other = TakeLease();
  auto again = client_->Upload(other->id(), sha256, "other bytes", kPatience);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(*again);
  EXPECT_TRUE(client_->Load(other->id(), sha256, CodeKind::kLibrary, "f.so", kPatience).ok());
  EXPECT_EQ(host_.last_lease(), other->id());
}

TEST_F(CodeServiceTest, PolicySaysWhatIsTaken) {
  const struct {
    UploadPolicy policy;
    bool library, python;
  } kCases[] = {{UploadPolicy::kNone, false, false},
                {UploadPolicy::kLibrary, true, false},
                {UploadPolicy::kPython, false, true},
                {UploadPolicy::kAll, true, true}};
  for (const auto& each : kCases) {
    SCOPED_TRACE(UploadPolicyName(each.policy));
    EXPECT_EQ(ParseUploadPolicy(UploadPolicyName(each.policy)), each.policy);
    lease_.reset();
    server_.reset();
    Start(each.policy);
    const absl::Status library = Bring(Code(10), CodeKind::kLibrary).status();
    EXPECT_EQ(library.ok(), each.library) << library;
    const absl::Status python = Bring(Code(10), CodeKind::kPython).status();
    EXPECT_EQ(python.ok(), each.python) << python;
    for (const absl::Status& status : {library, python}) {
      if (status.ok()) continue;
      EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
      EXPECT_THAT(status.message(),
                  HasSubstr(absl::StrCat("--allow-upload=", UploadPolicyName(each.policy))));
      EXPECT_THAT(status.message(), HasSubstr("all"));
    }
    const absl::Status upload =
        client_->Upload(lease_->id(), HashOf("code")->ToBytes(), "code", kPatience).status();
    EXPECT_EQ(upload.ok(), each.policy != UploadPolicy::kNone) << upload;
    EXPECT_EQ(absl::IsPermissionDenied(upload), each.policy == UploadPolicy::kNone);
  }
}

TEST_F(CodeServiceTest, BytesThatAreNotAsAnnouncedAreLost) {
  Start(UploadPolicy::kAll);
  const std::string code = Code(1000);
  for (const std::string& sent : {Code(1000, 'y'), code.substr(1), code + "."}) {
    bootstrap::v1::UploadChunk data;
    data.set_data(sent);
    EXPECT_EQ(UploadRaw({FirstChunk(code), data}).error_code(), grpc::StatusCode::DATA_LOSS);
  }
  EXPECT_EQ(cache_->used_bytes(), 0u);
  const absl::Status status =
      client_->Load(lease_->id(), HashOf(code)->ToBytes(), CodeKind::kLibrary, "", kPatience)
          .status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(HashOf(code)->ToHex()));
}

TEST_F(CodeServiceTest, MalformedUploadsAreRefused) {
  Start(UploadPolicy::kAll);
  EXPECT_EQ(UploadRaw({}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  bootstrap::v1::UploadChunk short_hash = FirstChunk(Code(10));
  short_hash.set_sha256("too short");
  EXPECT_EQ(UploadRaw({short_hash}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(UploadRaw({FirstChunk("")}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  bootstrap::v1::UploadChunk nobody = FirstChunk(Code(10));
  nobody.set_lease(lease_->id() + 1);
  EXPECT_EQ(UploadRaw({nobody}).error_code(), grpc::StatusCode::NOT_FOUND);
  bootstrap::v1::UploadChunk huge = FirstChunk(Code(10));
  huge.set_size(UINT64_MAX);
  EXPECT_EQ(UploadRaw({huge}).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  const std::string hash = HashOf("x")->ToBytes();
  EXPECT_TRUE(absl::IsInvalidArgument(
      client_->Load(lease_->id(), "too short", CodeKind::kLibrary, "", kPatience).status()));
  EXPECT_TRUE(absl::IsNotFound(
      client_->Load(lease_->id() + 1, hash, CodeKind::kLibrary, "", kPatience).status()));
  EXPECT_EQ(cache_->used_bytes(), 0u);
}

TEST_F(CodeServiceTest, AFileLargerThanTheCacheIsRefusedBeforeItIsSent) {
  Start(UploadPolicy::kAll, /*capacity=*/64 << 10);
  const absl::Status status = Bring(Code(10 << 20)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("65536"));
}

TEST_F(CodeServiceTest, AClientThatLeavesInTheMiddleLeavesNothing) {
  Start(UploadPolicy::kAll);
  const std::string code = Code(1000);
  {
    auto stub = bootstrap::v1::Code::NewStub(
        grpc::CreateChannel(server_->listen_address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    bootstrap::v1::UploadReply reply;
    auto writer = stub->Upload(&context, &reply);
    bootstrap::v1::UploadChunk chunk = FirstChunk(code);
    chunk.set_data(code.substr(0, 500));
    ASSERT_TRUE(writer->Write(chunk));
    while (cache_->used_bytes() == 0) std::this_thread::yield();
    context.TryCancel();
    EXPECT_FALSE(writer->Finish().ok());
  }
  while (cache_->used_bytes() != 0) std::this_thread::yield();
  EXPECT_TRUE(Bring(code).ok());
}

TEST_F(CodeServiceTest, AnUploadEndsWithItsLease) {
  Start(UploadPolicy::kAll);
  const std::string code = Code(1000);
  auto stub = bootstrap::v1::Code::NewStub(
      grpc::CreateChannel(server_->listen_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  bootstrap::v1::UploadReply reply;
  auto writer = stub->Upload(&context, &reply);
  bootstrap::v1::UploadChunk chunk = FirstChunk(code);
  chunk.set_data(code.substr(0, 500));
  ASSERT_TRUE(writer->Write(chunk));
  while (cache_->used_bytes() == 0) std::this_thread::yield();
  // The upload does not hold it up.
  EXPECT_TRUE(lease_->Release(kPatience).ok());
  chunk.Clear();
  chunk.set_data(code.substr(500));
  writer->Write(chunk);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_FALSE(cache_->Has(*HashOf(code)));
}

// An upload whose client has sent half of the file, and nothing since.
class StandingUpload {
 public:
  StandingUpload(const std::string& server, bootstrap::v1::UploadChunk first,
                 const std::string& code)
      : stub_(bootstrap::v1::Code::NewStub(
            grpc::CreateChannel(server, grpc::InsecureChannelCredentials()))) {
    // Only so that a server that waits for the client for ever fails the test.
    context_.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    writer_ = stub_->Upload(&context_, &reply_);
    first.set_data(code.substr(0, code.size() / 2));
    EXPECT_TRUE(writer_->Write(first));
  }
  // What the server says, without another word from the client.
  grpc::Status Outcome() { return writer_->Finish(); }

 private:
  std::unique_ptr<bootstrap::v1::Code::Stub> stub_;
  grpc::ClientContext context_;
  bootstrap::v1::UploadReply reply_;
  std::unique_ptr<grpc::ClientWriter<bootstrap::v1::UploadChunk>> writer_;
};

TEST_F(CodeServiceTest, AnUploadThatStandsStillEndsWithItsLease) {
  Start(UploadPolicy::kAll);
  const std::string code = Code(1000);
  StandingUpload upload(server_->listen_address(), FirstChunk(code), code);
  while (cache_->used_bytes() == 0) std::this_thread::yield();
  EXPECT_TRUE(lease_->Release(kPatience).ok());
  const grpc::Status status = upload.Outcome();
  EXPECT_EQ(cache_->used_bytes(), 0u);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("lease has ended"));
}

TEST_F(CodeServiceTest, AnUploadThatGivesWayEndsAtOnce) {
  Start(UploadPolicy::kAll, /*capacity=*/8192, /*stalled_after=*/absl::ZeroDuration());
  const std::string code = Code(8000);
  StandingUpload upload(server_->listen_address(), FirstChunk(code), code);
  while (cache_->used_bytes() == 0) std::this_thread::yield();
  ASSERT_TRUE(Bring(Code(7000, 'y')).ok());
  const grpc::Status status = upload.Outcome();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("stood still"));
}

TEST_F(CodeServiceTest, AFileThatWasEvictedIsSentAgain) {
  Start(UploadPolicy::kAll, /*capacity=*/8192);
  ASSERT_TRUE(Bring(Code(8000)).ok());
  ASSERT_TRUE(Bring(Code(5000)).ok());
  EXPECT_FALSE(cache_->Has(*HashOf(Code(8000))));
  ASSERT_TRUE(Bring(Code(8000)).ok());
  EXPECT_EQ(host_.hashes().back(), *HashOf(Code(8000)));
}

TEST_F(CodeServiceTest, AFileThatIsGoneBeforeItIsLoadedIsSentOnceMoreButNotForEver) {
  Start(UploadPolicy::kAll);
  host_.evictions = 1;
  EXPECT_TRUE(Bring(Code(10)).ok());
  host_.evictions = 100;
  const absl::Status status = Bring(Code(20)).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_GT(host_.evictions, 90);
}

TEST_F(CodeServiceTest, AFileStaysWhileItIsLoaded) {
  Start(UploadPolicy::kAll, /*capacity=*/8192);
  const std::string code = Code(8000);
  absl::Status meanwhile;
  host_.before_load = [&] {
    meanwhile = client_->Upload(lease_->id(), HashOf(Code(5000))->ToBytes(), Code(5000), kPatience)
                    .status();
  };
  auto functions = Bring(code);
  ASSERT_TRUE(functions.ok()) << functions.status();
  EXPECT_EQ(host_.hashes().back(), *HashOf(code));
  EXPECT_TRUE(absl::IsAborted(meanwhile)) << meanwhile;
}

TEST_F(CodeServiceTest, TheHostsRefusalReachesTheClient) {
  Start(UploadPolicy::kAll);
  host_.refusal = absl::AlreadyExistsError("function \"f\" is defined twice");
  const absl::Status status = Bring(Code(10)).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("defined twice"));
}

// All of them at once would need more than the cache has.
TEST_F(CodeServiceTest, ManyClientsMayBringTheSameAtOnce) {
  constexpr int kClients = 8;
  const std::string code = Code(200'000);
  Start(UploadPolicy::kAll, /*capacity=*/2 * code.size());
  std::vector<std::thread> threads;
  for (int client = 0; client < kClients; ++client) {
    threads.emplace_back([&] {
      auto functions = Bring(code);
      EXPECT_TRUE(functions.ok()) << functions.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(host_.hashes().size(), size_t{kClients});
  for (const Sha256Digest& hash : host_.hashes()) EXPECT_EQ(hash, *HashOf(code));
  EXPECT_EQ(cache_->files(), 1u);
}

TEST_F(CodeServiceTest, AClientThatFindsNoRoomGivesUpWhenItsTimeIsOver) {
  Start(UploadPolicy::kAll, /*capacity=*/8192);
  auto in_the_way = cache_->Begin(*HashOf("a"), 8192);
  ASSERT_TRUE(in_the_way.ok());
  const absl::Status status = UploadAndLoad(client_.get(), lease_->id(), Code(10),
                                            CodeKind::kLibrary, "f.so", absl::Seconds(5))
                                  .status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("no room"));
}

TEST(UploadPolicyTest, OtherWordsAreNoPolicy) {
  for (const char* word : {"", "All", "some", "library,python"}) {
    EXPECT_EQ(ParseUploadPolicy(word), absl::nullopt) << word;
  }
}

TEST(ReadCodeTest, FilesAreReadWholeAndOthersRefused) {
  const std::string path = testing::TempDir() + "/read_code_test";
  const std::string code = Code(100'000);
  std::ofstream(path, std::ios::binary) << code;
  auto read = ReadCode(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, code);
  std::ofstream(path, std::ios::binary | std::ios::trunc).close();
  EXPECT_TRUE(absl::IsInvalidArgument(ReadCode(path).status()));
  std::filesystem::remove(path);
  const absl::Status missing = ReadCode(path).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(missing.message(), HasSubstr(path));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadCode(testing::TempDir()).status()));
}

}  // namespace
}  // namespace invoker
