#include "src/invoke/function/exported_functions.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

// What the dynamic section says.
struct SymbolTable {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  uint64_t strings_bytes = 0;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* sysv_hash = nullptr;
};

SymbolTable FindSymbolTable(const link_map& map) {
  // The loader has replaced offsets by addresses, unless the section is read-only to it.
  const auto address = [&map](ElfW(Addr) value) {
    return reinterpret_cast<const void*>(value < map.l_addr ? value + map.l_addr : value);
  };
  SymbolTable table;
  for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
    const void* at = address(entry->d_un.d_ptr);
    switch (entry->d_tag) {
      case DT_SYMTAB:
        table.symbols = static_cast<const ElfW(Sym)*>(at);
        break;
      case DT_STRTAB:
        table.strings = static_cast<const char*>(at);
        break;
      case DT_STRSZ:
        table.strings_bytes = entry->d_un.d_val;
        break;
      case DT_GNU_HASH:
        table.gnu_hash = static_cast<const uint32_t*>(at);
        break;
      case DT_HASH:
        table.sysv_hash = static_cast<const uint32_t*>(at);
        break;
      default:
        break;
    }
  }
  return table;
}

// Nothing says how many symbols there are but the hash tables. GNU's has the defined ones only,
// which come last: one more than the last of the chain that begins last.
uint32_t CountByGnuHash(const uint32_t* table) {
  const uint32_t buckets = table[0];
  const uint32_t first_hashed = table[1];
  const uint32_t filter_words = table[2];  // each as wide as an address
  const uint32_t* bucket = table + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chain = bucket + buckets;
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) last = std::max(last, bucket[i]);
  if (last < first_hashed) return first_hashed;
  while ((chain[last - first_hashed] & 1) == 0) ++last;
  return last + 1;
}

bool IsPlainFunction(const ElfW(Sym) & symbol) {
  // The macros are the same for both classes.
  return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL &&
         symbol.st_shndx != SHN_UNDEF &&
         (ELF64_ST_VISIBILITY(symbol.st_other) == STV_DEFAULT ||
          ELF64_ST_VISIBILITY(symbol.st_other) == STV_PROTECTED);
}

}  // namespace

absl::StatusOr<std::vector<ExportedFunction>> ExportedFunctions(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_ld == nullptr) {
    const char* reason = dlerror();
    return absl::InternalError(absl::StrCat("the loader does not say where its symbols are: ",
                                            reason != nullptr ? reason : "no reason given"));
  }
  const SymbolTable table = FindSymbolTable(*map);
  if (table.symbols == nullptr || table.strings == nullptr || table.strings_bytes == 0) {
    return absl::InternalError("it has no dynamic symbol table");
  }
  if (table.gnu_hash == nullptr && table.sysv_hash == nullptr) {
    return absl::InternalError(
        "its dynamic symbols have no hash table (DT_GNU_HASH or DT_HASH), so their number is "
        "unknown; link it again");
  }
  const uint32_t count =
      table.gnu_hash != nullptr ? CountByGnuHash(table.gnu_hash) : table.sysv_hash[1];
  std::vector<ExportedFunction> functions;
  for (uint32_t i = 0; i < count; ++i) {
    const ElfW(Sym)& symbol = table.symbols[i];
    if (!IsPlainFunction(symbol) || symbol.st_name >= table.strings_bytes) continue;
    const char* name = table.strings + symbol.st_name;
    const size_t length = strnlen(name, table.strings_bytes - symbol.st_name);
    if (length == 0 || name[0] == '_') continue;
    ExportedFunction function;
    function.name.assign(name, length);
    // By name, as the library's own code would find it: a name may have several versions.
    function.address = dlsym(handle, function.name.c_str());
    if (function.address != nullptr) functions.push_back(std::move(function));
  }
  const auto by_name = [](const ExportedFunction& a, const ExportedFunction& b) {
    return a.name < b.name;
  };
  const auto same_name = [](const ExportedFunction& a, const ExportedFunction& b) {
    return a.name == b.name;
  };
  std::sort(functions.begin(), functions.end(), by_name);
  functions.erase(std::unique(functions.begin(), functions.end(), same_name), functions.end());
  return functions;
}

}  // namespace invoker
