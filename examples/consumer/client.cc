// client HOST:PORT TEXT: calls "reverse" on a worker and prints what it returns.

#include "invoker/client.h"

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: client HOST:PORT TEXT\n";
    return 2;
  }
  auto client = invoker::Client::Connect(argv[1]);
  if (!client.ok()) {
    std::cerr << "client: " << client.status().message() << "\n";
    return 1;
  }
  auto reverse = (*client)->Function<std::string(std::string)>("reverse");
  if (!reverse.ok()) {
    std::cerr << "client: " << reverse.status().message() << "\n";
    return 1;
  }
  absl::StatusOr<std::string> reversed = (*reverse)(argv[2]);
  if (!reversed.ok()) {
    std::cerr << "client: " << reversed.status().message() << "\n";
    return 1;
  }
  std::cout << *reversed << "\n";
}
