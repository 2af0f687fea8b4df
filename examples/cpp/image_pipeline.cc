// Makes thumbnails of every photograph in a folder, on leased executors, and then once more in this
// process, to check them and to say what the executors were good for.
//
//   image_pipeline --server=127.0.0.1:7000 --executors=2 --input=photographs --output=thumbnails
//       --library=bazel-bin/examples/functions/libexample_functions.so
//
// The library is the worker's (it has the function `thumbnail`), loaded here for the comparison.

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "invoker/client_group.h"
#include "invoker/function.h"

namespace {

using Clock = std::chrono::steady_clock;

// A thumbnail has at most 128 x 128 pixels, so a few kilobytes.
constexpr uint32_t kMostThumbnail = 64 << 10;

struct Settings {
  std::string server;
  std::string input;
  std::string output;
  std::string library;
  uint32_t executors = 2;
};

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string Milliseconds(absl::Duration time) {
  return absl::StrCat(absl::ToInt64Milliseconds(time), " ms");
}

absl::StatusOr<std::vector<std::filesystem::path>> ListPhotographs(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension();
    if (extension == ".jpg" || extension == ".jpeg") paths.push_back(entry.path());
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  if (paths.empty()) return absl::NotFoundError(absl::StrCat(folder, ": no *.jpg in it"));
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return absl::DataLossError(absl::StrCat("cannot read ", path.string()));
  return data;
}

absl::Status WriteFile(const std::filesystem::path& path, const std::string& data) {
  std::ofstream file(path, std::ios::binary);
  file << data;
  file.close();
  if (!file) return absl::DataLossError(absl::StrCat("cannot write ", path.string()));
  return absl::OkStatus();
}

// The whole pipeline: read a photograph, send it, write what comes back.
absl::Status ProcessRemotely(const std::vector<std::filesystem::path>& photographs,
                             const std::filesystem::path& output, invoker::ClientGroup* group) {
  absl::StatusOr<invoker::GroupFunction> thumbnail = group->Function("thumbnail");
  if (!thumbnail.ok()) return thumbnail.status();
  invoker::MapOptions options;
  options.ordered = false;
  options.call.timeout = absl::Seconds(60);
  options.call.response_capacity = kMostThumbnail;
  size_t next = 0;
  const auto read_next = [&]() -> std::optional<absl::StatusOr<invoker::MapInput>> {
    if (next == photographs.size()) return std::nullopt;
    absl::StatusOr<std::string> data = ReadFile(photographs[next++]);
    if (!data.ok()) return data.status();
    return invoker::MapInput(*std::move(data));
  };
  invoker::MapRun run = group->StartMap(*thumbnail, read_next, options, photographs.size());
  while (std::optional<invoker::MapResult> result = run.Next()) {
    const std::filesystem::path& photograph = photographs[result->index];
    if (!result->response.ok()) {
      return absl::Status(
          result->response.status().code(),
          absl::StrCat(photograph.string(), ": ", result->response.status().message()));
    }
    absl::Status status =
        WriteFile(output / photograph.filename(), std::string(result->response->text()));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// The worker's function, in this process. Loaded until the process ends.
class LocalThumbnail {
 public:
  static absl::StatusOr<LocalThumbnail> Load(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absl::NotFoundError(dlerror());
    const auto get_module =
        reinterpret_cast<const invoker_module* (*)()>(dlsym(library, "invoker_get_module"));
    const invoker_module* module = get_module == nullptr ? nullptr : get_module();
    for (uint32_t i = 0; module != nullptr && i < module->count; ++i) {
      if (absl::string_view(module->entries[i].name) == "thumbnail") {
        return LocalThumbnail(module->entries[i]);
      }
    }
    return absl::NotFoundError(absl::StrCat(path, " has no function `thumbnail`"));
  }

  absl::StatusOr<std::string> Call(const std::string& photograph) const {
    std::string output(kMostThumbnail, '\0');
    char error[INVOKER_MIN_ERROR_CAPACITY] = "";
    invoker_call call = {};
    call.struct_size = sizeof(call);
    call.context = entry_.context;
    call.input = photograph.data();
    call.input_size = photograph.size();
    call.output = output.data();
    call.output_capacity = output.size();
    call.error = error;
    call.error_capacity = sizeof(error);
    const int64_t result = entry_.function(&call);
    if (result == INVOKER_OUTPUT_TOO_SMALL) {
      return absl::ResourceExhaustedError("a thumbnail is larger than there is room for");
    }
    if (result < 0) return absl::InvalidArgumentError(error);
    output.resize(static_cast<size_t>(result));
    return output;
  }

 private:
  explicit LocalThumbnail(const invoker_entry& entry) : entry_(entry) {}

  invoker_entry entry_;
};

// Reads, computes and writes the same here, one after the other.
absl::Status ProcessHere(const std::vector<std::filesystem::path>& photographs,
                         const std::filesystem::path& output, const LocalThumbnail& thumbnail) {
  for (const std::filesystem::path& photograph : photographs) {
    const absl::StatusOr<std::string> data = ReadFile(photograph);
    if (!data.ok()) return data.status();
    const absl::StatusOr<std::string> result = thumbnail.Call(*data);
    if (!result.ok()) return result.status();
    absl::Status status = WriteFile(output / photograph.filename(), *result);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Compare(const std::vector<std::filesystem::path>& photographs,
                     const std::filesystem::path& one, const std::filesystem::path& other) {
  for (const std::filesystem::path& photograph : photographs) {
    const absl::StatusOr<std::string> first = ReadFile(one / photograph.filename());
    if (!first.ok()) return first.status();
    const absl::StatusOr<std::string> second = ReadFile(other / photograph.filename());
    if (!second.ok()) return second.status();
    if (*first != *second) {
      return absl::DataLossError(
          absl::StrCat("the executors' thumbnail of ", photograph.string(), " is another one"));
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const Settings& settings) {
  const absl::StatusOr<std::vector<std::filesystem::path>> photographs =
      ListPhotographs(settings.input);
  if (!photographs.ok()) return photographs.status();
  const absl::StatusOr<LocalThumbnail> local = LocalThumbnail::Load(settings.library);
  if (!local.ok()) return local.status();
  std::error_code error;
  std::filesystem::create_directories(settings.output, error);
  if (error) return absl::NotFoundError(absl::StrCat(settings.output, ": ", error.message()));

  const Clock::time_point began = Clock::now();
  invoker::LeaseOptions options;
  options.executors = settings.executors;
  const absl::StatusOr<std::unique_ptr<invoker::ClientGroup>> group =
      invoker::ClientGroup::Acquire(settings.server, options);
  if (!group.ok()) return group.status();
  const double lease_ms = MillisecondsSince(began);
  const Clock::time_point leased = Clock::now();
  absl::Status status = ProcessRemotely(*photographs, settings.output, group->get());
  const double remote_ms = MillisecondsSince(leased);
  if (!status.ok()) return status;

  const std::filesystem::path here = std::filesystem::path(settings.output) / ".here";
  std::filesystem::create_directories(here, error);
  if (error) return absl::NotFoundError(absl::StrCat(here.string(), ": ", error.message()));
  const Clock::time_point began_here = Clock::now();
  status = ProcessHere(*photographs, here, *local);
  const double here_ms = MillisecondsSince(began_here);
  if (status.ok()) status = Compare(*photographs, settings.output, here);
  std::filesystem::remove_all(here, error);
  if (!status.ok()) return status;

  std::cout << photographs->size() << " photographs, the same thumbnails as made here, in "
            << settings.output << "\n"
            << "lease                  " << lease_ms << " ms\n"
            << settings.executors << " leased executors     " << remote_ms << " ms\n"
            << "here, one thread       " << here_ms << " ms\n"
            << "speed-up               " << here_ms / remote_ms << ", with the lease "
            << here_ms / (lease_ms + remote_ms) << "\n";
  for (const absl::StatusOr<invoker::LeaseEnd>& end : (*group)->Release()) {
    if (!end.ok()) return end.status();
    std::cout << "bill: " << end->usage.calls << " calls, "
              << Milliseconds(end->usage.function_time) << " in functions, "
              << Milliseconds(end->usage.cpu_time) << " of processor, "
              << Milliseconds(end->usage.lease_time) << " of leased executors, "
              << end->usage.bytes_in << " bytes in, " << end->usage.bytes_out << " out\n";
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes thumbnails of every photograph in a folder on leased executors.");
  Settings settings;
  app.add_option("--server", settings.server, "HOST:PORT,... of invoker_servers")->required();
  app.add_option("--input", settings.input, "a folder with JPEG files")->required();
  app.add_option("--output", settings.output, "the folder for the thumbnails")->required();
  app.add_option("--library", settings.library, "libexample_functions.so, to compare with")
      ->required();
  app.add_option("--executors", settings.executors, "to lease")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(settings);
  if (status.ok()) return 0;
  std::cerr << "image_pipeline: " << status << "\n";
  return 1;
}
