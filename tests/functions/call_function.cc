// call_function LIBRARY NAME: runs the function on standard input, its answer goes to standard
// output.

#include <cstdint>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "src/invoke/function/function_library.h"
#include "src/invoke/function/function_registry.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: call_function LIBRARY NAME < input > output\n";
    return 2;
  }
  const auto library = invoker::FunctionLibrary::Load(argv[1]);
  if (!library.ok()) {
    std::cerr << library.status() << "\n";
    return 1;
  }
  invoker::FunctionRegistry registry;
  if (const absl::Status status = (*library)->RegisterAll(&registry); !status.ok()) {
    std::cerr << status << "\n";
    return 1;
  }
  const auto id = registry.FindId(argv[2]);
  if (!id.has_value()) {
    std::cerr << "no function " << argv[2] << " in " << argv[1] << "\n";
    return 1;
  }
  std::vector<std::uint8_t> input((std::istreambuf_iterator<char>(std::cin)),
                                  std::istreambuf_iterator<char>());
  const std::size_t input_size = input.size();
  input.push_back(0);  // so that data() is not null
  std::vector<std::uint8_t> output(1 << 20);
  char error[512];
  const invoker::CallOutcome outcome =
      invoker::RunFunction(*registry.Find(*id), absl::MakeConstSpan(input).first(input_size),
                           absl::MakeSpan(output), absl::MakeSpan(error));
  if (outcome.kind != invoker::CallOutcome::Kind::kOk) {
    std::cerr << argv[2] << " failed: " << error << "\n";
    return 1;
  }
  std::cout.write(reinterpret_cast<const char*>(output.data()),
                  static_cast<std::streamsize>(outcome.output_size));
  return 0;
}
