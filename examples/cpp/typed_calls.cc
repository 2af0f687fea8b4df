// Calls typed functions of a worker with values of C++, and checks the results.
//
//   examples/run typed_calls
//
// The functions are examples/functions/arrays.cc, and examples/python/typed_calls.py calls the same
// from Python. With a server that has been started already:
//
//   typed_calls --server=127.0.0.1:7000

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "invoker/client.h"

namespace {

constexpr size_t kSize = 1000;  // numbers in an array

using Array = invoker::ArrayView<const double>;
using Matrix = invoker::ArrayView<const double, 2>;

absl::Status Wrong(const std::string& what) { return absl::DataLossError(what + " is wrong"); }

absl::Status CallAll(const std::string& server) {
  absl::StatusOr<std::unique_ptr<invoker::Client>> client = invoker::Client::Connect(server);
  if (!client.ok()) return client.status();

  // The look-up compares these types with the worker's.
  auto dot = (*client)->Function<double(Array, Array)>("dot");
  if (!dot.ok()) return dot.status();
  auto scale = (*client)->Function<Matrix(Matrix, double)>("scale");
  if (!scale.ok()) return scale.status();
  const absl::Status other = (*client)->Function<double(std::string)>("dot").status();
  if (!absl::IsInvalidArgument(other)) return Wrong("the look-up of a function with other types");

  std::vector<double> a(kSize);
  std::iota(a.begin(), a.end(), 0.0);
  const std::vector<double> ones(kSize, 1.0);
  const double sum = std::accumulate(a.begin(), a.end(), 0.0);

  // A call that waits.
  absl::StatusOr<double> product = (*dot)(a, ones);
  if (!product.ok()) return product.status();
  if (*product != sum) return Wrong("dot");

  // Many calls at a time. The arguments may change as soon as Start has returned.
  std::vector<invoker::TypedFuture<double, invoker::Future>> futures;
  std::vector<double> factors(kSize);
  for (int i = 0; i < 50; ++i) {
    std::fill(factors.begin(), factors.end(), i);
    futures.push_back(dot->Start(a, factors));
  }
  for (int i = 0; i < 50; ++i) {
    absl::StatusOr<double> result = futures[i].Get();
    if (!result.ok()) return result.status();
    if (*result != i * sum) return Wrong("dot number " + std::to_string(i));
  }

  // The result is a view of the response, which `scaled` keeps.
  auto scaled = (*scale)(Matrix(a.data(), {1, kSize}), 10.0);
  if (!scaled.ok()) return scaled.status();
  const Matrix& matrix = **scaled;
  if (matrix.shape(0) != 1 || matrix.shape(1) != kSize) return Wrong("the shape");
  for (size_t i = 0; i < kSize; ++i) {
    if (matrix(0, i) != 10 * a[i]) return Wrong("scale");
  }

  std::cout << "dot(a, ones) = " << *product << ", and 50 calls at a time\n"
            << "scale(matrix, 10) has " << matrix.shape(0) << " x " << matrix.shape(1)
            << " elements and ends with " << matrix(0, kSize - 1) << "\n"
            << "dot with a string is refused: " << other.message() << "\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Calls typed functions with arrays and checks the results.");
  std::string server;
  app.add_option("--server", server, "HOST:PORT of an invoker_server with libexample_functions.so")
      ->required();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = CallAll(server);
  if (status.ok()) return 0;
  std::cerr << "typed_calls: " << status << "\n";
  return 1;
}
