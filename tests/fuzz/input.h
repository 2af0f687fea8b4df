// A fuzzer's bytes, taken as values one after the other. When they are used up, every value is 0.

#ifndef INVOKER_TESTS_FUZZ_INPUT_H_
#define INVOKER_TESTS_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace invoker::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  size_t left() const { return left_; }

  template <typename T>
  T Take() {
    T value = 0;
    TakeBytes(&value, sizeof(value));
    return value;
  }

  bool TakeBool() { return (Take<uint8_t>() & 1) != 0; }

  // One of `count` numbers from 0.
  uint32_t Pick(uint32_t count) { return Take<uint8_t>() % count; }

  // A number that is interesting more often than chance would have it: small, or near a power of
  // two.
  uint64_t TakeNumber() {
    const uint8_t how = Take<uint8_t>();
    if (how < 128) return how;
    if (how < 224) return (uint64_t{1} << (how % 64)) + Take<int8_t>();
    return Take<uint64_t>();
  }

  // Returns how many there were.
  size_t TakeBytes(void* to, size_t size) {
    size = std::min(size, left_);
    if (size > 0) memcpy(to, data_, size);
    data_ += size;
    left_ -= size;
    return size;
  }

  std::string TakeString(size_t most) {
    std::string text(std::min<size_t>(Take<uint8_t>() % (most + 1), left_), '\0');
    TakeBytes(text.data(), text.size());
    return text;
  }

  // All that is left, without taking it.
  absl::string_view Rest() const { return {reinterpret_cast<const char*>(data_), left_}; }

 private:
  const uint8_t* data_;
  size_t left_;
};

}  // namespace invoker::fuzz

#endif  // INVOKER_TESTS_FUZZ_INPUT_H_
