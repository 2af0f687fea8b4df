#include "src/code/blob_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/code/blob_names.h"

namespace invoker {
namespace {

constexpr size_t kMostUploads = 64;

absl::Status ErrnoStatus(int error, absl::string_view what) {
  return absl::ErrnoToStatus(error, absl::StrCat("code cache: ", what));
}

}  // namespace

// What an earlier process has left.
struct BlobCache::Found {
  Sha256Digest digest;
  uint64_t size;
  timespec used;
};

absl::StatusOr<std::unique_ptr<BlobCache>> BlobCache::Open(const BlobCacheOptions& options) {
  std::unique_ptr<BlobCache> cache(new BlobCache(options));
  if (absl::Status status = cache->Prepare(); !status.ok()) return status;
  if (absl::Status status = cache->Scan(); !status.ok()) return status;
  return cache;
}

BlobCache::BlobCache(const BlobCacheOptions& options) : options_(options) {}

BlobCache::~BlobCache() {
  if (directory_ >= 0) close(directory_);
  if (lock_ >= 0) close(lock_);
  if (temporary_) {
    std::error_code ignored;
    std::filesystem::remove_all(options_.directory, ignored);
  }
}

// Opens the directory for this process alone.
absl::Status BlobCache::Prepare() {
  if (options_.directory.empty()) {
    std::error_code error;
    std::string name = std::filesystem::temp_directory_path(error) / "invoker-code-XXXXXX";
    if (error || mkdtemp(name.data()) == nullptr) {
      return ErrnoStatus(error ? error.value() : errno, "cannot create a temporary directory");
    }
    options_.directory = name;
    temporary_ = true;
  }
  // Executors have working directories of their own.
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(options_.directory, error);
  if (!error) options_.directory = absolute.string();
  std::filesystem::create_directories(absolute.parent_path(), error);
  const std::string shown = absl::StrCat("directory \"", options_.directory, "\"");
  if (mkdir(options_.directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, absl::StrCat("cannot create ", shown));
  }
  directory_ = open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat info;
  if (directory_ < 0 || fstat(directory_, &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot open ", shown));
  }
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("code cache: ", shown, " belongs to another user, or others may write to it: ",
                     "they could put code into executors; give one of your own"));
  }
  if (fchmod(directory_, 0700) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot set the mode of ", shown));
  }
  lock_ = openat(directory_, kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock_ < 0) return ErrnoStatus(errno, absl::StrCat("cannot write to ", shown));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, absl::StrCat("cannot lock ", shown));
    return absl::FailedPreconditionError(absl::StrCat(
        "code cache: ", shown, " is in use by another process; give each server its own"));
  }
  return absl::OkStatus();
}

absl::Status BlobCache::Scan() {
  const int copy = openat(directory_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = copy < 0 ? nullptr : fdopendir(copy);
  if (listing == nullptr) {
    const int error = errno;
    if (copy >= 0) close(copy);
    return ErrnoStatus(error, absl::StrCat("cannot list \"", options_.directory, "\""));
  }
  const absl::Cleanup close_listing = [listing] { closedir(listing); };
  std::vector<Found> all;
  while (const dirent* entry = readdir(listing)) {
    const absl::string_view name = entry->d_name;
    // Left by an upload that a process did not live to finish.
    if (absl::StartsWith(name, kIncomingPrefix)) unlinkat(directory_, entry->d_name, 0);
    const absl::optional<Sha256Digest> digest = Sha256Digest::FromHex(name);
    struct stat info;
    if (!digest.has_value() ||
        fstatat(directory_, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode) || info.st_size == 0 ||
        fchmodat(directory_, entry->d_name, kFileMode, 0) != 0) {
      continue;
    }
    all.push_back({*digest, static_cast<uint64_t>(info.st_size), info.st_mtim});
  }
  // The time of a file's last change is that of its last use.
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return std::make_pair(a.used.tv_sec, a.used.tv_nsec) <
           std::make_pair(b.used.tv_sec, b.used.tv_nsec);
  });
  absl::MutexLock lock(&mutex_);
  for (const Found& found : all) AddFound(found);
  Calls nobody;  // nothing is being uploaded yet
  MakeRoom(0, &nobody);
  return absl::OkStatus();
}

void BlobCache::AddFound(const Found& found) {
  Entry entry;
  entry.blob = std::make_shared<const Blob>(Blob{PathOf(found.digest.ToHex()), found.size});
  entry.place = by_use_.insert(by_use_.end(), found.digest);
  used_ += RoomFor(found.size);
  entries_[found.digest] = std::move(entry);
}

std::string BlobCache::PathOf(absl::string_view name) const {
  return absl::StrCat(options_.directory, "/", name);
}

bool BlobCache::Has(const Sha256Digest& digest) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(digest);
  return found != entries_.end() && found->second.verified;
}

absl::StatusOr<BlobCache::Pin> BlobCache::Get(const Sha256Digest& digest) {
  std::shared_ptr<const Blob> blob;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = entries_.find(digest); found != entries_.end()) {
      blob = found->second.blob;
      by_use_.splice(by_use_.end(), by_use_, found->second.place);
    }
  }
  if (blob == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no file with SHA-256 ", digest.ToHex(), " is in the worker's cache"));
  }
  const absl::Status verified = Verify(*blob, digest);
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(digest);
  if (verified.ok()) {
    utimensat(directory_, digest.ToHex().c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    if (found != entries_.end() && found->second.blob == blob) found->second.verified = true;
    return Pin(std::move(blob));
  }
  // Unless somebody has uploaded it again meanwhile.
  if (found != entries_.end() && found->second.blob == blob) Remove(digest);
  return absl::NotFoundError(absl::StrCat(
      "the file with SHA-256 ", digest.ToHex(),
      " was damaged in the worker's cache and has been removed (", verified.message(), ")"));
}

absl::Status BlobCache::Verify(const Blob& blob, const Sha256Digest& digest) const {
  const int file = openat(directory_, digest.ToHex().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, "cannot open it");
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat info;
  if (fstat(file, &info) != 0 || static_cast<uint64_t>(info.st_size) != blob.size) {
    return absl::DataLossError("its size has changed");
  }
  absl::StatusOr<Sha256Digest> now = HashOfFile(file);
  if (!now.ok()) return now.status();
  if (*now != digest) return absl::DataLossError("its hash is another one");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BlobCache::Incoming>> BlobCache::Begin(
    const Sha256Digest& digest, uint64_t size, std::function<void()> on_gave_way) {
  if (size == 0) return absl::InvalidArgumentError("an empty file is no code");
  // Rounded up, a size could come out small.
  if (size > options_.capacity_bytes || RoomFor(size) > options_.capacity_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the file has ", size, " bytes, and the worker's whole code cache takes ",
                     options_.capacity_bytes));
  }
  std::unique_ptr<Incoming> incoming(new Incoming(this, digest, size));
  Calls gave_way;
  const absl::Cleanup tell = [&gave_way] {
    for (const std::function<void()>& call : gave_way) call();
  };
  {
    absl::MutexLock lock(&mutex_);
    if (incoming_.size() >= kMostUploads && !DropStalled(&gave_way)) {
      return absl::AbortedError(absl::StrCat("the worker takes ", kMostUploads,
                                             " uploads at a time, and has them; try again"));
    }
    if (!MakeRoom(RoomFor(size), &gave_way)) {
      return absl::AbortedError(absl::StrCat("the worker's code cache has no room for ", size,
                                             " bytes: of its ", options_.capacity_bytes, " bytes, ",
                                             used_,
                                             " are being loaded or uploaded just now; try again"));
    }
    incoming->reserved_ = RoomFor(size);
    used_ += incoming->reserved_;
    incoming->moved_ = absl::Now();
    incoming->on_gave_way_ = std::move(on_gave_way);
    incoming->name_ = absl::StrCat(kIncomingPrefix, next_incoming_++);
    incoming_.insert(incoming.get());
  }
  incoming->file_ = openat(directory_, incoming->name_.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (incoming->file_ < 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot create a file in \"", options_.directory, "\""));
  }
  return incoming;
}

bool BlobCache::MakeRoom(uint64_t bytes, Calls* gave_way) {
  while (used_ > options_.capacity_bytes || bytes > options_.capacity_bytes - used_) {
    if (!EvictOne() && !DropStalled(gave_way)) return false;
  }
  return true;
}

// False if every file is in use.
bool BlobCache::EvictOne() {
  for (const Sha256Digest& digest : by_use_) {
    // New pins are made under the mutex only, so one owner means that there is none.
    if (entries_.at(digest).blob.use_count() > 1) continue;
    Remove(Sha256Digest(digest));
    return true;
  }
  return false;
}

void BlobCache::Remove(const Sha256Digest& digest) {
  const auto found = entries_.find(digest);
  unlinkat(directory_, digest.ToHex().c_str(), 0);
  used_ -= RoomFor(found->second.blob->size);
  by_use_.erase(found->second.place);
  entries_.erase(found);
}

// The upload that has been still for longest gives way. False if none has been for long enough.
bool BlobCache::DropStalled(Calls* gave_way) {
  Incoming* stalled = nullptr;
  for (Incoming* incoming : incoming_) {
    if (stalled == nullptr || incoming->moved_ < stalled->moved_) stalled = incoming;
  }
  if (stalled == nullptr || absl::Now() - stalled->moved_ < options_.stalled_after) return false;
  used_ -= std::exchange(stalled->reserved_, 0);
  incoming_.erase(stalled);
  if (stalled->on_gave_way_) gave_way->push_back(std::move(stalled->on_gave_way_));
  // The upload still has the file open, and so its bytes.
  const int file = openat(directory_, stalled->name_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (file >= 0) close(file);
  unlinkat(directory_, stalled->name_.c_str(), 0);
  return true;
}

uint64_t BlobCache::used_bytes() const {
  absl::MutexLock lock(&mutex_);
  return used_;
}

size_t BlobCache::files() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

}  // namespace invoker
