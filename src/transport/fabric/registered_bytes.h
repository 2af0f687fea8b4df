// How much memory of this process is registered with fabrics.

#ifndef INVOKER_SRC_TRANSPORT_FABRIC_REGISTERED_BYTES_H_
#define INVOKER_SRC_TRANSPORT_FABRIC_REGISTERED_BYTES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace invoker::transport {

// Counts one registration for as long as it lives. Any thread.
class RegisteredBytes {
 public:
  RegisteredBytes() = default;
  explicit RegisteredBytes(size_t bytes) : bytes_(bytes) {
    sum_.fetch_add(bytes_, std::memory_order_relaxed);
  }
  RegisteredBytes(RegisteredBytes&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  RegisteredBytes& operator=(RegisteredBytes&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~RegisteredBytes() { sum_.fetch_sub(bytes_, std::memory_order_relaxed); }

  // All registrations that there are now.
  static uint64_t Sum() { return sum_.load(std::memory_order_relaxed); }

 private:
  inline static std::atomic<uint64_t> sum_{0};
  size_t bytes_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_FABRIC_REGISTERED_BYTES_H_
