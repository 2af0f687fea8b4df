#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/code/blob_cache.h"
#include "src/code/blob_names.h"

namespace invoker {
namespace {

absl::Status GaveWay() {
  return absl::AbortedError(
      "the upload stood still, and another one needed its room in the worker's cache");
}

}  // namespace

BlobCache::Incoming::Incoming(BlobCache* cache, const Sha256Digest& digest, uint64_t size)
    : cache_(cache), digest_(digest), size_(size) {}

BlobCache::Incoming::~Incoming() {
  if (file_ >= 0) close(file_);
  absl::MutexLock lock(&cache_->mutex_);
  // A name is never used twice, so this is a file of this upload's own, or none.
  if (!name_.empty()) unlinkat(cache_->directory_, name_.c_str(), 0);
  cache_->used_ -= reserved_;
  cache_->incoming_.erase(this);
}

absl::Status BlobCache::Incoming::Append(absl::string_view bytes) {
  if (bytes.size() > size_ - received_) {
    return absl::DataLossError(
        absl::StrCat("the upload has more than the ", size_, " bytes that it announced"));
  }
  {
    absl::MutexLock lock(&cache_->mutex_);
    if (reserved_ == 0) return GaveWay();
    moved_ = absl::Now();
  }
  hash_.Update(bytes);
  received_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && (errno == ENOSPC || errno == EDQUOT)) {
      return absl::ResourceExhaustedError(absl::StrCat("the disk of the worker's code cache (\"",
                                                       cache_->directory(), "\") is full"));
    }
    if (written < 0) return absl::ErrnoToStatus(errno, "cannot write to the worker's code cache");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<BlobCache::Pin> BlobCache::Incoming::Commit() {
  if (received_ != size_) {
    return absl::DataLossError(absl::StrCat("the upload ended after ", received_, " of the ", size_,
                                            " bytes that it announced"));
  }
  absl::StatusOr<Sha256Digest> hashed = hash_.Finish();
  if (!hashed.ok()) return hashed.status();
  if (*hashed != digest_) {
    return absl::DataLossError(absl::StrCat("the bytes have SHA-256 ", hashed->ToHex(),
                                            ", and were announced as ", digest_.ToHex()));
  }
  if (fchmod(file_, kFileMode) != 0) {
    return absl::ErrnoToStatus(errno, "cannot set the mode of a file of the worker's code cache");
  }
  const std::string final_name = digest_.ToHex();
  absl::MutexLock lock(&cache_->mutex_);
  if (reserved_ == 0) return GaveWay();
  if (const auto found = cache_->entries_.find(digest_); found != cache_->entries_.end()) {
    // Another upload was quicker.
    if (found->second.verified) return Pin(found->second.blob);
    // Left by an earlier process, and not looked at yet: this one is known to be whole.
    cache_->Remove(digest_);
  }
  if (renameat(cache_->directory_, name_.c_str(), cache_->directory_, final_name.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, "cannot put a file into the worker's code cache");
  }
  Entry entry;
  entry.blob = std::make_shared<const Blob>(Blob{cache_->PathOf(final_name), size_});
  entry.place = cache_->by_use_.insert(cache_->by_use_.end(), digest_);
  entry.verified = true;
  Pin pin(entry.blob);
  cache_->entries_[digest_] = std::move(entry);
  // The room that was this upload's is the file's now.
  reserved_ = 0;
  cache_->incoming_.erase(this);
  return pin;
}

}  // namespace invoker
