// Memory for the input and output of bulk calls, which the executors of one worker share.
//
// A share is given back once its call needs the memory no more. If a session ends while transfers
// are under way, its shares stay taken until the fabric can no longer touch the memory. Any thread.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_BUDGET_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace invoker {

// The default limit of one worker, in bytes at a time.
inline constexpr uint64_t kDefaultBulkBytes = uint64_t{1} << 30;

class BulkBudget {
 public:
  // Bytes that are taken until the share is destroyed.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::move(other.budget_)),
          bytes_(std::exchange(other.bytes_, 0)),
          kept_(std::exchange(other.kept_, false)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      std::swap(kept_, other.kept_);
      return *this;
    }
    ~Share() {
      if (budget_ == nullptr) return;
      if (kept_) {
        budget_->limit_.fetch_add(bytes_, std::memory_order_relaxed);
      } else {
        budget_->used_.fetch_sub(bytes_, std::memory_order_relaxed);
      }
    }

    // Nobody waits for these bytes any more: the limit is less by them until the share is
    // destroyed.
    void Keep() {
      if (budget_ == nullptr || std::exchange(kept_, true)) return;
      budget_->limit_.fetch_sub(bytes_, std::memory_order_relaxed);
      budget_->used_.fetch_sub(bytes_, std::memory_order_relaxed);
    }

   private:
    friend class BulkBudget;
    Share(std::shared_ptr<BulkBudget> budget, uint64_t bytes)
        : budget_(std::move(budget)), bytes_(bytes) {}

    std::shared_ptr<BulkBudget> budget_;  // nullptr: it is nothing
    uint64_t bytes_ = 0;
    bool kept_ = false;
  };

  explicit BulkBudget(uint64_t limit_bytes = kDefaultBulkBytes) : limit_(limit_bytes) {}
  BulkBudget(const BulkBudget&) = delete;
  BulkBudget& operator=(const BulkBudget&) = delete;

  // Makes two shares of so many bytes, or, if others have too much now, none: false. `budget` lives
  // as long as its shares.
  static bool Take(const std::shared_ptr<BulkBudget>& budget, uint64_t first_bytes,
                   uint64_t second_bytes, Share* first, Share* second) {
    const uint64_t limit = budget->limit();
    uint64_t used = budget->used();
    do {
      if (used > limit || first_bytes > limit - used || second_bytes > limit - used - first_bytes) {
        return false;
      }
    } while (!budget->used_.compare_exchange_weak(used, used + first_bytes + second_bytes,
                                                  std::memory_order_relaxed));
    *first = Share(budget, first_bytes);
    *second = Share(budget, second_bytes);
    return true;
  }

  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  // From now on. Shares that are taken stay taken. No share is kept.
  void set_limit(uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }

  // How long a call's transfers may be under way with none of them ending. Only time counts in
  // which the executor looks for that. Set before there are calls.
  int64_t stall_ns = 30'000'000'000;

  // Sessions that keep memory for their next calls (SpareMemory), which no share counts.
  std::atomic<uint32_t> keepers{0};

 private:
  std::atomic<uint64_t> limit_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_BUDGET_H_
