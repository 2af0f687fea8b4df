// A worker in a program of your own. Serves until its standard input ends.

#include <iostream>
#include <string>
#include <string_view>

#include "invoker/server.h"

int main() {
  invoker::Server server;
  // Typed by its parameter and its result: "(str) -> str".
  server.Register("reverse",
                  [](std::string_view text) { return std::string(text.rbegin(), text.rend()); });
  if (absl::Status status = server.Start(); !status.ok()) {
    std::cerr << "worker: " << status.message() << "\n";
    return 1;
  }
  std::cout << server.address() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
  server.Stop();
  std::cerr << "worker: ran " << server.CallsRun() << " calls\n";
}
