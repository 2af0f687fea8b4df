// Functions that are not on the worker until a client brings them, and then are called over the
// fabric.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "invoker/client.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/code/code_service.h"
#include "src/code/upload_client.h"
#include "src/invoke/function/function_library.h"
#include "src/invoke/worker/worker.h"

namespace invoker {
namespace {
using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

// A worker whose own executors load what clients bring.
class LoadingWorker final : public bootstrap::SessionHost {
 public:
  explicit LoadingWorker(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
  ~LoadingWorker() override { worker_.reset(); }

  bootstrap::WorkerInfo Info() const override { return worker_->Info(); }
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      uint64_t lease, const bootstrap::OpenSessionRequest& request) override {
    return worker_->OpenSession(lease, request);
  }
  absl::Status SwitchNotification(uint64_t lease, uint64_t handle, Notification notification,
                                  absl::string_view reason) override {
    return worker_->SwitchNotification(lease, handle, notification, reason);
  }
  absl::Status CloseSession(uint64_t lease, uint64_t handle) override {
    return worker_->CloseSession(lease, handle);
  }
  ResourceUsage CloseLease(uint64_t lease) override { return worker_->CloseLease(lease); }

  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Load(uint64_t, const std::string& path,
                                                            CodeKind,
                                                            const std::string& name) override {
    FunctionLibraryOptions options;
    options.name = name;
    absl::StatusOr<std::unique_ptr<FunctionLibrary>> library = FunctionLibrary::Load(path, options);
    if (!library.ok()) return library.status();
    absl::StatusOr<std::vector<bootstrap::FunctionInfo>> functions =
        worker_->AddFunctions((*library)->functions());
    if (!functions.ok()) return functions;
    absl::MutexLock lock(&mutex_);
    libraries_.push_back(*std::move(library));
    return functions;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<FunctionLibrary>> libraries_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Worker> worker_;  // goes first: its functions are in the libraries
};

class UploadCallTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto cache = BlobCache::Open({});
    ASSERT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
    WorkerOptions options;
    options.providers = {GetParam()};
    options.addresses.preferred_ip = "127.0.0.1";
    options.executor.hot_timeout = absl::Microseconds(100);
    auto worker = Worker::Start(options, FunctionRegistry());
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = std::make_unique<LoadingWorker>(*std::move(worker));
    bootstrap::ServerOptions server_options;
    server_options.listen = "127.0.0.1:0";
    server_options.services = {MakeCodeService(cache_.get(), UploadPolicy::kLibrary)};
    auto server = bootstrap::Server::Start(server_options, worker_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto bootstrap = bootstrap::BootstrapClient::Connect(server_->listen_address(), kPatience);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status();
    bootstrap_ = *std::move(bootstrap);
    auto lease = bootstrap::Lease::Acquire(bootstrap_.get(), {}, {}, kPatience);
    ASSERT_TRUE(lease.ok()) << lease.status();
    lease_ = *std::move(lease);
  }

  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Bring(const std::string& path) {
    absl::StatusOr<std::string> code = ReadCode(path);
    if (!code.ok()) return code.status();
    return UploadAndLoad(bootstrap_.get(), lease_->id(), *code, CodeKind::kLibrary,
                         path.substr(path.rfind('/') + 1), kPatience);
  }

  std::string Call(const std::string& function, const std::string& input) {
    ClientOptions options;
    options.peer_timeout = absl::Seconds(5);
    auto client = Client::Connect(server_->listen_address(), options);
    if (!client.ok()) return client.status().ToString();
    auto remote = (*client)->Function(function);
    if (!remote.ok()) return remote.status().ToString();
    auto response = (*client)->Invoke(*remote, input);
    return response.ok() ? std::string(response->text()) : response.status().ToString();
  }

  std::unique_ptr<BlobCache> cache_;
  std::unique_ptr<LoadingWorker> worker_;
  std::unique_ptr<bootstrap::Server> server_;
  std::unique_ptr<bootstrap::BootstrapClient> bootstrap_;
  std::unique_ptr<bootstrap::Lease> lease_;
};

INSTANTIATE_TEST_SUITE_P(Providers, UploadCallTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return std::string(info.index == 0 ? "Tcp" : "Shm");
                         });

TEST_P(UploadCallTest, ALibraryIsCalledAfterItsUpload) {
  EXPECT_TRUE(worker_->Info().functions.empty());
  auto functions = Bring("tests/functions/c_functions.so");
  ASSERT_TRUE(functions.ok()) << functions.status();
  EXPECT_EQ(functions->size(), 4u);
  EXPECT_EQ(Call("c.reverse", "hello"), "olleh");
}

TEST_P(UploadCallTest, RfaasFunctionsAreCalledUnchanged) {
  ASSERT_TRUE(Bring("tests/functions/c_functions.so").ok());
  auto functions = Bring("tests/functions/rfaas_functions.so");
  ASSERT_TRUE(functions.ok()) << functions.status();
  EXPECT_EQ(functions->front().name, "c.reverse");
  EXPECT_EQ(functions->back().name, "rfaas_throw");
  EXPECT_EQ(Call("rfaas_reverse", "hello"), "olleh");
  EXPECT_EQ(Call("c.reverse", "hello"), "olleh");
  EXPECT_THAT(Call("rfaas_overrun", ""), HasSubstr("damaged"));
}

TEST_P(UploadCallTest, WhatCannotBeLoadedIsCalledByItsOwnName) {
  const absl::Status no_library = Bring("tests/functions/no_entry_point.so").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(no_library)) << no_library;
  EXPECT_THAT(no_library.message(), HasSubstr("\"no_entry_point.so\""));
  EXPECT_THAT(no_library.message(), HasSubstr("exports no plain C function"));

  ASSERT_TRUE(Bring("tests/functions/rfaas_functions.so").ok());
  const absl::Status twice = Bring("tests/functions/rfaas_functions_sysv_hash.so").status();
  EXPECT_TRUE(absl::IsAlreadyExists(twice)) << twice;
  EXPECT_THAT(twice.message(), HasSubstr("by rfaas_functions.so and by rfaas_functions_sysv"));
  EXPECT_EQ(worker_->Info().functions.size(), 6u);
}

}  // namespace
}  // namespace invoker
