// A worker in a program of your own. Serves until its standard input ends.

#include <algorithm>
#include <iostream>
#include <string>

#include "invoker/server.h"

int main() {
  invoker::Server server;
  server.Register("reverse", [](invoker::Input input, invoker::Output& output) {
    if (!output.Resize(input.size())) return invoker::Result::TooSmall(input.size());
    std::reverse_copy(input.begin(), input.end(), output.data());
    return invoker::Result::Ok();
  });
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
