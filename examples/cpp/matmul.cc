// Multiplies two matrices on a worker, and checks the product against a plain loop.
//
//   matmul --server=127.0.0.1:7000 --size=256

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <random>
#include <vector>

#include "CLI/CLI.hpp"
#include "invoker/client.h"

namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The format is that of examples/functions/matmul.cc: m, k, n, then both matrices, row by row.
std::vector<std::byte> Encode(uint64_t size, const std::vector<double>& a,
                              const std::vector<double>& b) {
  const uint64_t shape[3] = {size, size, size};
  const size_t matrix_bytes = a.size() * sizeof(double);
  std::vector<std::byte> request(sizeof(shape) + 2 * matrix_bytes);
  std::memcpy(request.data(), shape, sizeof(shape));
  std::memcpy(request.data() + sizeof(shape), a.data(), matrix_bytes);
  std::memcpy(request.data() + sizeof(shape) + matrix_bytes, b.data(), matrix_bytes);
  return request;
}

std::vector<double> MultiplyHere(uint64_t size, const std::vector<double>& a,
                                 const std::vector<double>& b) {
  std::vector<double> c(size * size);
  for (uint64_t i = 0; i < size; ++i) {
    for (uint64_t k = 0; k < size; ++k) {
      for (uint64_t j = 0; j < size; ++j) c[i * size + j] += a[i * size + k] * b[k * size + j];
    }
  }
  return c;
}

absl::Status Multiply(const std::string& server, uint64_t size) {
  absl::StatusOr<std::unique_ptr<invoker::Client>> client = invoker::Client::Connect(server);
  if (!client.ok()) return client.status();
  absl::StatusOr<invoker::RemoteFunction> matmul = (*client)->Function("matmul");
  if (!matmul.ok()) return matmul.status();

  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> values(-1, 1);
  std::vector<double> a(size * size);
  std::vector<double> b(size * size);
  std::generate(a.begin(), a.end(), [&] { return values(random); });
  std::generate(b.begin(), b.end(), [&] { return values(random); });

  invoker::CallOptions options;
  options.timeout = absl::Seconds(60);
  options.response_capacity = static_cast<uint32_t>(size * size * sizeof(double));
  const Clock::time_point there = Clock::now();
  absl::StatusOr<invoker::Response> response =
      (*client)->Invoke(*matmul, invoker::Bytes(Encode(size, a, b)), options);
  const double remote_ms = MillisecondsSince(there);
  if (!response.ok()) return response.status();
  std::vector<double> product(size * size);
  if (response->size() != product.size() * sizeof(double)) {
    return absl::DataLossError("the product has the wrong size");
  }
  std::memcpy(product.data(), response->data().data(), response->size());

  const Clock::time_point here = Clock::now();
  const std::vector<double> expected = MultiplyHere(size, a, b);
  const double local_ms = MillisecondsSince(here);
  double error = 0;
  for (size_t i = 0; i < product.size(); ++i) {
    error = std::max(error, std::abs(product[i] - expected[i]));
  }
  // Written so that a NaN fails as well.
  if (!(error <= 1e-9 * static_cast<double>(size))) {
    return absl::DataLossError("the product is wrong by " + std::to_string(error));
  }
  std::cout << size << "x" << size << ": remote (BLAS, transfer included) " << remote_ms
            << " ms, here (plain loop) " << local_ms << " ms, largest difference " << error << "\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Multiplies two random square matrices on a worker and checks the product.");
  std::string server;
  uint64_t size = 128;
  app.add_option("--server", server, "HOST:PORT of an invoker_server")->required();
  app.add_option("--size", size, "rows and columns; with 2 MiB windows at most 361")
      ->check(CLI::Range(1, 8192))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Multiply(server, size);
  if (status.ok()) return 0;
  std::cerr << "matmul: " << status << "\n";
  return 1;
}
