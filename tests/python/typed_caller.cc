// Calls `scale` of the server at argv[1] with the matrix 1 2 / 3 4, and prints the result.

#include <iostream>
#include <vector>

#include "invoker/client.h"

int main(int argc, char** argv) {
  using Matrix = invoker::ArrayView<const double, 2>;
  if (argc != 2) return 2;
  auto client = invoker::Client::Connect(argv[1]);
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  auto scale = (*client)->Function<Matrix(Matrix, double)>("scale");
  if (!scale.ok()) {
    std::cerr << scale.status() << "\n";
    return 1;
  }
  const std::vector<double> numbers = {1, 2, 3, 4};
  auto scaled = (*scale)(Matrix(numbers.data(), {2, 2}), 2);
  if (!scaled.ok()) {
    std::cerr << scaled.status() << "\n";
    return 1;
  }
  const char* separator = "";
  for (const double number : **scaled) {
    std::cout << separator << number;
    separator = " ";
  }
  std::cout << "\n";
  return 0;
}
