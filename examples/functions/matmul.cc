// matmul: the product of two matrices of float64, by BLAS.
//
// Input, all little-endian: three uint64, m, k and n; then A, m rows of k float64; then B, k rows
// of n float64. Output: A B, m rows of n float64. There is nothing between the parts, so the input
// has exactly 24 + 8 (m k + k n) bytes and the output 8 m n. Any of m, k, n may be 0.

#include <cblas.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "invoker/function.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "matmul reads its matrices in place");

// Only OpenBLAS has it; with another BLAS it is null.
extern "C" void openblas_set_num_threads(int threads) __attribute__((weak));

namespace {

constexpr std::uint64_t kHeaderSize = 3 * sizeof(std::uint64_t);

// a * b * 8, false if that is no uint64.
bool MatrixBytes(std::uint64_t rows, std::uint64_t columns, std::uint64_t* bytes) {
  return !__builtin_mul_overflow(rows, columns, bytes) &&
         !__builtin_mul_overflow(*bytes, sizeof(double), bytes);
}

// A worker's executors are its parallelism: threads of BLAS's own would fight with them for the
// cores.
void UseOneThread() {
  static const bool done = [] {
    if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

INVOKER_FUNCTION(matmul, input, output) {
  std::uint64_t size[3];
  if (input.size() < kHeaderSize) {
    return invoker::Result::Error("matmul: the input has " + std::to_string(input.size()) +
                                  " bytes, less than the 24 of m, k and n");
  }
  std::memcpy(size, input.data(), kHeaderSize);
  const auto [m, k, n] = size;
  const std::string shapes = std::to_string(m) + "x" + std::to_string(k) + " by " +
                             std::to_string(k) + "x" + std::to_string(n);

  // BLAS counts in int.
  constexpr std::uint64_t kMax = std::numeric_limits<int>::max();
  std::uint64_t a_bytes, b_bytes, c_bytes, expected;
  if (m > kMax || k > kMax || n > kMax || !MatrixBytes(m, k, &a_bytes) ||
      !MatrixBytes(k, n, &b_bytes) || !MatrixBytes(m, n, &c_bytes) ||
      __builtin_add_overflow(a_bytes, b_bytes, &expected) ||
      __builtin_add_overflow(expected, kHeaderSize, &expected)) {
    return invoker::Result::Error("matmul: " + shapes + " is too large");
  }
  if (input.size() != expected) {
    return invoker::Result::Error("matmul: " + shapes + " needs an input of " +
                                  std::to_string(expected) + " bytes, not of " +
                                  std::to_string(input.size()));
  }
  if (!output.Resize(c_bytes)) return invoker::Result::TooSmall(c_bytes);
  if (c_bytes == 0) return invoker::Result::Ok();
  if (k == 0) {  // a sum over nothing; BLAS wants leading dimensions of at least 1
    std::memset(output.data(), 0, c_bytes);
    return invoker::Result::Ok();
  }

  // In place: input and output are aligned to 32 bytes, and the header has 24.
  const auto* a = reinterpret_cast<const double*>(input.data() + kHeaderSize);
  const double* b = a + m * k;
  auto* c = reinterpret_cast<double*>(output.data());
  UseOneThread();
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), 1.0, a, static_cast<int>(k), b, static_cast<int>(n), 0.0, c,
              static_cast<int>(n));
  return invoker::Result::Ok();
}
