#include "src/transport/self_test/installed_program.h"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace invoker::transport {
namespace {

// Ends with a slash, or is empty.
std::string DirectoryOf(absl::string_view path) {
  return std::string(path.substr(0, path.rfind('/') + 1));
}

std::vector<std::string> Places() {
  std::vector<std::string> places;
  const auto add = [&places](std::string place) {
    if (std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(std::move(place));
    }
  };
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  if (size > 0) {
    const std::string directory = DirectoryOf({path, static_cast<size_t>(size)});
    add(directory);
    add(directory + "../lib/invoker/");
  }
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(&Places), &library) != 0 && library.dli_fname != nullptr) {
    const std::string directory = DirectoryOf(library.dli_fname);
    // A library is in lib/, or in a folder of lib/ that is named after the architecture.
    for (const char* from_library : {"", "invoker/", "../invoker/"}) {
      if (!directory.empty()) add(directory + from_library);
    }
  }
  return places;
}

}  // namespace

absl::StatusOr<std::string> FindInstalledProgram(absl::string_view name,
                                                 absl::string_view purpose) {
  const std::vector<std::string> places = Places();
  for (const std::string& place : places) {
    std::string program = absl::StrCat(place, name);
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return absl::NotFoundError(absl::StrCat("there is no program ", name, ", which ", purpose,
                                          ", in ", absl::StrJoin(places, " or "),
                                          "; build or install it there, or say where it is"));
}

}  // namespace invoker::transport
