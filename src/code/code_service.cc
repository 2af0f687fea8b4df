#include "src/code/code_service.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/bootstrap/lease/lease_table.h"
#include "src/bootstrap/service/allowed_functions.h"
#include "src/bootstrap/service/caller.h"
#include "src/bootstrap/service/service_support.h"
#include "src/security/tenant.h"

namespace invoker {
namespace {
using bootstrap::LeaseTable;
using bootstrap::Mark;
using bootstrap::ToGrpc;
namespace v1 = bootstrap::v1;

absl::StatusOr<Sha256Digest> DigestOf(const std::string& bytes) {
  const absl::optional<Sha256Digest> digest = Sha256Digest::FromBytes(bytes);
  if (digest.has_value()) return *digest;
  return absl::InvalidArgumentError(
      absl::StrCat("sha256: has ", bytes.size(), " bytes, not ", Sha256Digest::kBytes));
}

absl::StatusOr<CodeKind> KindOf(v1::CodeKind kind) {
  switch (kind) {
    case v1::CODE_KIND_LIBRARY:
      return CodeKind::kLibrary;
    case v1::CODE_KIND_PYTHON:
      return CodeKind::kPython;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("kind: ", static_cast<int>(kind), " is no kind of code"));
  }
}

absl::Status NotByPolicy(const security::Caller& caller, absl::string_view what) {
  return absl::PermissionDeniedError(
      absl::StrCat("this worker's policy lets tenant \"", caller.name, "\" bring along no ", what));
}

absl::Status CheckUploadBy(const security::Caller& caller, CodeKind kind) {
  if (caller.tenant == nullptr) return absl::OkStatus();
  const bool library = kind == CodeKind::kLibrary;
  if (library ? caller.tenant->may_upload_libraries : caller.tenant->may_upload_python) {
    return absl::OkStatus();
  }
  return NotByPolicy(caller, library ? "shared libraries" : "Python functions");
}

// The same, for a file that may become either.
absl::Status CheckAnyUploadBy(const security::Caller& caller) {
  if (CheckUploadBy(caller, CodeKind::kLibrary).ok()) return absl::OkStatus();
  if (CheckUploadBy(caller, CodeKind::kPython).ok()) return absl::OkStatus();
  return NotByPolicy(caller, "code");
}

// One upload. gRPC calls it from its own threads, one at a time; it has no thread of its own, so
// that a client that stands still holds up nobody. It ends with its lease, and when it gives way to
// another: any thread may say so, also when the upload is over.
class UploadReactor final : public grpc::ServerReadReactor<v1::UploadChunk>,
                            public bootstrap::LeaseWatch {
 public:
  static UploadReactor* Start(grpc::CallbackServerContext* context, BlobCache* cache,
                              UploadPolicy policy, const bootstrap::ServiceParts& parts,
                              v1::UploadReply* reply) {
    std::shared_ptr<UploadReactor> reactor(new UploadReactor(cache, parts.leases, reply));
    UploadReactor* const raw = reactor.get();
    raw->self_ = std::move(reactor);
    Mark(context);
    absl::StatusOr<security::Caller> caller = bootstrap::CallerOf(*context, parts.access);
    absl::Status status = caller.status();
    if (status.ok()) {
      raw->caller_ = *std::move(caller);
      status = CheckAnyUploadAllowed(policy);
    }
    if (status.ok()) status = CheckAnyUploadBy(raw->caller_);
    if (!status.ok()) {
      raw->EndWith(status);
    } else {
      raw->StartRead(&raw->chunk_);
    }
    return raw;
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      if (over_) return;
      reading_ = true;
    }
    absl::Status status = ok ? Take() : End();
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
      if (status.ok() && ok && !reply_->was_there()) status = ended_;
      if (status.ok() && ok && !reply_->was_there()) {
        StartRead(&chunk_);
        return;
      }
      over_ = true;
    }
    // Its room is free when the client hears of it.
    incoming_.reset();
    Finish(ToGrpc(status));
  }

  void OnLeaseEnded() override {
    EndWith(absl::NotFoundError("the lease has ended, and its upload with it"));
  }

  void OnDone() override {
    // A thread that ends it just now keeps it that long.
    const std::shared_ptr<UploadReactor> self = std::move(self_);
  }

 private:
  UploadReactor(BlobCache* cache, LeaseTable* leases, v1::UploadReply* reply)
      : cache_(cache), leases_(leases), reply_(reply) {}

  // Whatever the client does. Nothing if it is over.
  void EndWith(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (over_) return;
      if (reading_) {
        // That thread does it.
        if (ended_.ok()) ended_ = status;
        return;
      }
      over_ = true;
    }
    incoming_.reset();
    Finish(ToGrpc(status));
  }

  absl::Status Take() {
    if (!begun_) {
      begun_ = true;
      lease_ = chunk_.lease();
      absl::StatusOr<Sha256Digest> digest = DigestOf(chunk_.sha256());
      if (!digest.ok()) return digest.status();
      digest_ = *digest;
      if (absl::Status status = leases_->Watch(lease_, self_, caller_.name); !status.ok())
        return status;
    }
    // Not held between chunks: a lease need not wait for its uploads to end.
    if (absl::Status status = leases_->Acquire(lease_, caller_.name).status(); !status.ok())
      return status;
    // Perhaps since the last chunk, by another client.
    if (cache_->Has(digest_)) {
      reply_->set_was_there(true);
      return absl::OkStatus();
    }
    if (incoming_ == nullptr) {
      absl::StatusOr<std::unique_ptr<BlobCache::Incoming>> incoming =
          cache_->Begin(digest_, chunk_.size(), [weak = std::weak_ptr<UploadReactor>(self_)] {
            if (const std::shared_ptr<UploadReactor> upload = weak.lock()) {
              upload->EndWith(absl::AbortedError(
                  "the upload stood still, and another one needed its room in the worker's cache"));
            }
          });
      if (!incoming.ok()) return incoming.status();
      incoming_ = *std::move(incoming);
    }
    return incoming_->Append(chunk_.data());
  }

  // The client has sent all, or has gone.
  absl::Status End() {
    if (incoming_ == nullptr) {
      return absl::InvalidArgumentError("an upload begins with the lease, the hash and the size");
    }
    return incoming_->Commit().status();
  }

  BlobCache* const cache_;
  LeaseTable* const leases_;
  v1::UploadReply* const reply_;
  v1::UploadChunk chunk_;
  security::Caller caller_;
  bool begun_ = false;
  uint64_t lease_ = 0;
  Sha256Digest digest_;
  // Used by the thread that reads, and, once it is over, by the one that has ended it.
  std::unique_ptr<BlobCache::Incoming> incoming_;
  std::shared_ptr<UploadReactor> self_;  // until gRPC is done with it

  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // a chunk is being looked at
  bool over_ ABSL_GUARDED_BY(mutex_) = false;     // Finish has been, or is about to be, called
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);    // by somebody else, while `reading_`
};

// Load has threads of its own, since executors may take long to load a library.
class CodeService final : public v1::Code::WithCallbackMethod_Upload<v1::Code::Service> {
 public:
  CodeService(BlobCache* cache, UploadPolicy policy, const bootstrap::ServiceParts& parts)
      : cache_(cache), policy_(policy), parts_(parts) {}

  grpc::ServerReadReactor<v1::UploadChunk>* Upload(grpc::CallbackServerContext* context,
                                                   v1::UploadReply* reply) override {
    return UploadReactor::Start(context, cache_, policy_, parts_, reply);
  }

  grpc::Status Load(grpc::ServerContext* context, const v1::LoadRequest* message,
                    v1::LoadReply* reply) override {
    Mark(context);
    absl::StatusOr<std::vector<bootstrap::FunctionInfo>> functions = Load(*context, *message);
    if (!functions.ok()) return ToGrpc(functions.status());
    *reply->mutable_functions() = bootstrap::ToProto(*functions);
    return grpc::Status::OK;
  }

 private:
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Load(const grpc::ServerContext& context,
                                                            const v1::LoadRequest& message) {
    const absl::StatusOr<security::Caller> caller = bootstrap::CallerOf(context, parts_.access);
    if (!caller.ok()) return caller.status();
    absl::StatusOr<CodeKind> kind = KindOf(message.kind());
    if (!kind.ok()) return kind.status();
    if (absl::Status status = CheckUploadAllowed(policy_, *kind); !status.ok()) return status;
    if (absl::Status status = CheckUploadBy(*caller, *kind); !status.ok()) return status;
    absl::StatusOr<Sha256Digest> digest = DigestOf(message.sha256());
    if (!digest.ok()) return digest.status();
    absl::StatusOr<LeaseTable::Use> use = parts_.leases->Acquire(message.lease(), caller->name);
    if (!use.ok()) return use.status();
    absl::StatusOr<BlobCache::Pin> file = cache_->Get(*digest);
    if (!file.ok()) return file.status();
    absl::StatusOr<std::vector<bootstrap::FunctionInfo>> functions =
        parts_.host->Load(message.lease(), file->path(), *kind,
                          bootstrap::PrintableText(message.name(), bootstrap::kMaxReasonBytes));
    if (!functions.ok() || caller->tenant == nullptr) return functions;
    const auto filter =
        bootstrap::FilterFor(*caller, parts_.host->Info().functions, use->own_executors());
    bootstrap::HideForbidden(filter.get(), &*functions);
    return functions;
  }

  BlobCache* const cache_;
  const UploadPolicy policy_;
  const bootstrap::ServiceParts parts_;
};

}  // namespace

bootstrap::ServiceFactory MakeCodeService(BlobCache* cache, UploadPolicy policy) {
  return [cache, policy](const bootstrap::ServiceParts& parts) {
    return std::make_unique<CodeService>(cache, policy, parts);
  };
}

}  // namespace invoker
