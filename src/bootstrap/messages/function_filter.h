// Which of an executor's functions a session may call. Immutable once it is in use: any thread.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_FUNCTION_FILTER_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_FUNCTION_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace invoker::bootstrap {

class FunctionFilter {
 public:
  // `later_ones`: whether functions with higher ids than any that Add was told of may be called.
  // They are what a lease's client has uploaded, or what the server has loaded since.
  explicit FunctionFilter(bool later_ones) : later_ones_(later_ones) {}

  // Whether the function with the next id, from 0, is allowed.
  void Add(bool allowed) {
    if (size_ % kWordBits == 0) words_.push_back(0);
    if (allowed) words_.back() |= uint64_t{1} << (size_ % kWordBits);
    ++size_;
  }

  bool Allows(uint16_t id) const {
    if (id >= size_) return later_ones_;
    return (words_[id / kWordBits] >> (id % kWordBits) & 1) != 0;
  }

  size_t size() const { return size_; }
  bool later_ones() const { return later_ones_; }

 private:
  static constexpr size_t kWordBits = 64;

  std::vector<uint64_t> words_;
  size_t size_ = 0;
  const bool later_ones_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_FUNCTION_FILTER_H_
