// Files that clients have uploaded, by the SHA-256 of their bytes, in a directory of the worker.
//
// The cache is bounded; what has not been used for longest makes room, but never a file in use. It
// survives the process: what a predecessor has left is used again. Nothing in the directory is
// taken on trust, though: a file is hashed again each time before it is used, and one whose bytes
// have changed is thrown away. A file appears under its name whole or not at all, whatever happens
// to the process in the middle of an upload. One process at a time has the directory, which nobody
// but its user can enter; who is handed an open file may be anybody, like an executor that runs as
// another user.
//
// Any thread. Hashing and writing go on without a lock.

#ifndef INVOKER_SRC_CODE_BLOB_CACHE_H_
#define INVOKER_SRC_CODE_BLOB_CACHE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/base/sha256.h"

namespace invoker {

struct BlobCacheOptions {
  // Created if need be, with its parents. Must be this user's, and nobody else may be able to write
  // to it. Empty: a temporary one, removed with the cache.
  std::string directory;
  uint64_t capacity_bytes = uint64_t{1} << 30;
  // An upload that has not moved for so long gives way to a new one that needs its room, or its
  // place among those that there may be at a time.
  absl::Duration stalled_after = absl::Seconds(10);
};

class BlobCache {
 public:
  // A file of the cache, which stays as long as this lives. Must not outlive the cache.
  class Pin {
   public:
    const std::string& path() const { return blob_->path; }
    uint64_t size() const { return blob_->size; }

   private:
    friend class BlobCache;
    struct Blob {
      std::string path;
      uint64_t size = 0;
    };
    explicit Pin(std::shared_ptr<const Blob> blob) : blob_(std::move(blob)) {}
    std::shared_ptr<const Blob> blob_;
  };

  // A file that is being uploaded. One thread at a time; must not outlive the cache. Dropped before
  // Commit, it leaves nothing.
  class Incoming {
   public:
    ~Incoming();
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;

    // DATA_LOSS for more bytes than announced, RESOURCE_EXHAUSTED if the disk is full, ABORTED if
    // it has given way to another upload.
    absl::Status Append(absl::string_view bytes);
    // After the last byte, once. DATA_LOSS if the bytes are too few, or have another hash.
    absl::StatusOr<Pin> Commit();

   private:
    friend class BlobCache;
    Incoming(BlobCache* cache, const Sha256Digest& digest, uint64_t size);

    BlobCache* const cache_;
    const Sha256Digest digest_;
    const uint64_t size_;
    std::string name_;  // its file's
    int file_ = -1;
    Sha256 hash_;
    uint64_t received_ = 0;
    // Guarded by the cache's mutex.
    uint64_t reserved_ = 0;  // bytes of the cache; 0: it has given way, or is in the cache
    absl::Time moved_;       // when bytes last came
    std::function<void()> on_gave_way_;
  };

  // FAILED_PRECONDITION if the directory is used by another process, or could be written to by
  // others. Blocks while it looks at every file's size.
  static absl::StatusOr<std::unique_ptr<BlobCache>> Open(const BlobCacheOptions& options);
  ~BlobCache();
  BlobCache(const BlobCache&) = delete;
  BlobCache& operator=(const BlobCache&) = delete;

  // Whether the file is here, and was whole when this process last looked. Only Get is sure.
  bool Has(const Sha256Digest& digest) const;

  // NOT_FOUND if it is not here, or not any more what it was. Reads all of the file.
  absl::StatusOr<Pin> Get(const Sha256Digest& digest);

  // Makes room for a file of `size` bytes. INVALID_ARGUMENT for an empty one, RESOURCE_EXHAUSTED if
  // it is larger than the cache; ABORTED if too much of the cache is in use just now, or for too
  // many uploads at a time, none of which stands still. The same file may come from several clients
  // at once: the first to be whole stays. If the upload gives way, `on_gave_way` is called, once
  // and without a lock, by the thread that begins another; perhaps when the upload has ended
  // already.
  absl::StatusOr<std::unique_ptr<Incoming>> Begin(const Sha256Digest& digest, uint64_t size,
                                                  std::function<void()> on_gave_way = {});

  const std::string& directory() const { return options_.directory; }
  // What counts against the capacity: whole disk blocks, and the room of uploads under way.
  uint64_t used_bytes() const;
  size_t files() const;

 private:
  using Blob = Pin::Blob;
  struct Entry {
    std::shared_ptr<const Blob> blob;  // pins have copies of it
    std::list<Sha256Digest>::iterator place;
    bool verified = false;  // by this process
  };
  struct Found;
  using Calls = std::vector<std::function<void()>>;

  explicit BlobCache(const BlobCacheOptions& options);

  absl::Status Prepare();
  absl::Status Scan();
  void AddFound(const Found& found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string PathOf(absl::string_view name) const;
  // Evicts until `bytes` more fit. False if they do not. `gave_way` gets what those are to be told
  // that have.
  bool MakeRoom(uint64_t bytes, Calls* gave_way) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EvictOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool DropStalled(Calls* gave_way) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const Sha256Digest& digest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks the file's bytes; says what differs.
  absl::Status Verify(const Blob& blob, const Sha256Digest& digest) const;

  BlobCacheOptions options_;
  bool temporary_ = false;
  int directory_ = -1;
  int lock_ = -1;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Sha256Digest, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<Sha256Digest> by_use_ ABSL_GUARDED_BY(mutex_);  // the one to go next first
  absl::flat_hash_set<Incoming*> incoming_
      ABSL_GUARDED_BY(mutex_);  // those that have not given way
  uint64_t next_incoming_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;  // entries' and uploads' room
};

}  // namespace invoker

#endif  // INVOKER_SRC_CODE_BLOB_CACHE_H_
