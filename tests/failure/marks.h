// How often each call of a run has been executed, counted by the functions themselves in a file
// that outlives the processes that run them.
//
// A call is named by a number that its client chooses, each once. Any process that can open the
// file, any thread.

#ifndef INVOKER_TESTS_FAILURE_MARKS_H_
#define INVOKER_TESTS_FAILURE_MARKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace invoker::failure {

// Where a function library finds the file when it is loaded into a server.
inline constexpr char kMarksVariable[] = "INVOKER_FAILURE_MARKS";

// The file: a count for each number, all zeros at first, and sparse.
inline constexpr uint64_t kMostCalls = uint64_t{1} << 26;
using Mark = std::atomic<uint8_t>;
static_assert(sizeof(Mark) == 1 && Mark::is_always_lock_free);

// A call's input: its number, 64 bits, and a payload. Its output: the same number, and every byte
// of the payload changed by where it is and by the number.
inline constexpr size_t kNumberBytes = 8;
inline uint8_t Changed(uint8_t byte, uint64_t number, uint64_t position) {
  return static_cast<uint8_t>(byte ^ (number * 167 + position * 13 + 1));
}

}  // namespace invoker::failure

#endif  // INVOKER_TESTS_FAILURE_MARKS_H_
