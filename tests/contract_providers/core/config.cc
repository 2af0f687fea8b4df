#include "tests/contract_providers/core/config.h"

#include <sys/random.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace contract {
namespace {

bool SetFreedoms(const std::string& list, Config* config) {
  if (list == "all") return true;
  config->late = config->pieces = config->completions = config->again = config->entries = false;
  if (list == "none") return true;
  size_t begin = 0;
  while (begin <= list.size()) {
    size_t end = list.find(',', begin);
    if (end == std::string::npos) end = list.size();
    const std::string name = list.substr(begin, end - begin);
    if (name == "late") {
      config->late = true;
    } else if (name == "pieces") {
      config->pieces = true;
    } else if (name == "completions") {
      config->completions = true;
    } else if (name == "again") {
      config->again = true;
    } else if (name == "entries") {
      config->entries = true;
    } else {
      std::fprintf(stderr,
                   "CONTRACT_FREEDOMS: \"%s\" is none of late, pieces, completions, again, "
                   "entries, all, none\n",
                   name.c_str());
      return false;
    }
    begin = end + 1;
  }
  return true;
}

}  // namespace

uint64_t NumberFromEnvironment(const char* name, uint64_t fallback) {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const uint64_t value = strtoull(text, &end, 0);
  return *end == '\0' ? value : fallback;
}

uint64_t Entropy() {
  uint64_t value = 0;
  // Eight bytes are never cut short once the system is up.
  [[maybe_unused]] const ssize_t got = getrandom(&value, sizeof(value), 0);
  return value;
}

bool Config::FromEnvironment(Config* config) {
  // One random seed per process, so that the number printed repeats all of it.
  static const uint64_t random_seed = Entropy() & 0xffffffffu;
  config->seed = NumberFromEnvironment("CONTRACT_SEED", random_seed);
  if (const char* list = getenv("CONTRACT_FREEDOMS"); list != nullptr && *list != '\0') {
    if (!SetFreedoms(list, config)) return false;
  }
  config->lateness =
      static_cast<uint32_t>(NumberFromEnvironment("CONTRACT_LATENESS", config->lateness));
  config->storm = static_cast<uint32_t>(NumberFromEnvironment("CONTRACT_STORM", config->storm));
  if (const char* inner = getenv("CONTRACT_INNER"); inner != nullptr && *inner != '\0') {
    config->inner_provider = inner;
  }
  if (const char* node = getenv("CONTRACT_INNER_NODE"); node != nullptr && *node != '\0') {
    config->inner_node = node;
  }
  if (config->inner_provider != "shm" && config->inner_provider != "tcp;ofi_rxm") {
    std::fprintf(stderr, "CONTRACT_INNER: \"%s\" is neither shm nor tcp;ofi_rxm\n",
                 config->inner_provider.c_str());
    return false;
  }
  return true;
}

}  // namespace contract
