// The other side of a raw endpoint. Prints what its endpoint says of itself, reads what the other's
// says, and then does what each line of standard input tells it:
//   pong BYTES COUNT   awaits COUNT writes, and answers each with one of BYTES and the same data
//   sink COUNT BYTES   awaits COUNT writes, and then writes BYTES once
//   stream ...         one side of a stream with many messages in flight (bench/raw/raw_stream.h)
// It busy-polls until all of its own writes have completed, prints "done" and blocks on standard
// input, so that its core is free between turns. Ends when standard input does.

#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/raw/raw_endpoint.h"
#include "bench/raw/raw_stream.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "raw_peer";

struct Settings {
  std::string provider;
  std::string address;
  size_t bytes = 1 << 20;
};

absl::Status Pong(RawEndpoint* raw, uint64_t bytes, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const absl::StatusOr<uint32_t> data = raw->Await();
    if (!data.ok()) return data.status();
    if (absl::Status status = raw->Write(bytes, *data); !status.ok()) return status;
  }
  return raw->Drain();
}

absl::Status Sink(RawEndpoint* raw, uint64_t count, uint64_t bytes) {
  uint32_t last = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const absl::StatusOr<uint32_t> data = raw->Await();
    if (!data.ok()) return data.status();
    last = *data;
  }
  if (absl::Status status = raw->Write(bytes, last); !status.ok()) return status;
  return raw->Drain();
}

absl::Status Obey(RawEndpoint* raw, const std::string& line) {
  const absl::StatusOr<bool> streamed = ServeStream(raw, line);
  if (!streamed.ok()) return streamed.status();
  if (*streamed) return absl::OkStatus();
  std::istringstream words(line);
  std::string command;
  uint64_t first = 0;
  uint64_t second = 0;
  words >> command >> first >> second;
  const bool is_pong = command == "pong";
  if (words.fail() || (!is_pong && command != "sink") ||
      (is_pong ? first : second) > raw->capacity()) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a command, or more bytes than ", raw->capacity(), ": '", line, "'"));
  }
  return is_pong ? Pong(raw, first, second) : Sink(raw, first, second);
}

absl::Status Serve(const Settings& settings) {
  absl::StatusOr<std::unique_ptr<RawEndpoint>> raw =
      RawEndpoint::Open(settings.provider, settings.address, settings.bytes);
  if (!raw.ok()) return raw.status();
  std::cout << (*raw)->Describe() << std::endl;
  std::string line;
  if (!std::getline(std::cin, line)) return absl::OkStatus();
  if (absl::Status status = (*raw)->Meet(line); !status.ok()) return status;
  while (std::getline(std::cin, line)) {
    if (absl::Status status = Obey(raw->get(), line); !status.ok()) return status;
    std::cout << "done" << std::endl;
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("The other side of a raw libfabric ping-pong, told what to do on standard input.",
               kProgram);
  Settings settings;
  app.add_option("--provider", settings.provider, "libfabric's name")->required();
  app.add_option("--address", settings.address, "fabric address, where it is an IP address");
  app.add_option("--bytes", settings.bytes, "the largest message")->capture_default_str();
  app.footer("Exit status: 0 standard input ended, 1 the fabric failed, 2 bad arguments.");
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  const absl::Status status = Serve(settings);
  if (status.ok()) return tools::kExitOk;
  LogError(status.message());
  return tools::kExitFailed;
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
