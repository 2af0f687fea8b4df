#include "src/invoke/function/function_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/invoke/function/exported_functions.h"

namespace invoker {
namespace {

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr unsigned kMachine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr unsigned kMachine = EM_PPC64;
#else
#error "add this machine's ELF constant"
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
constexpr unsigned char kByteOrder = ELFDATA2LSB;
#else
constexpr unsigned char kByteOrder = ELFDATA2MSB;
#endif

absl::Status FileError(const std::string& name, int error) {
  const std::string message =
      absl::StrCat("cannot open function library \"", name, "\": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(
          message, "; give its path, absolute or relative to the current directory (the system's ",
          "library path is not searched)"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat(message, "; this process must be allowed to read it"));
    default:
      return absl::InvalidArgumentError(message);
  }
}

// What dlopen would say about these files is either vague ("invalid ELF header") or misleading (for
// a directory, "cannot read file data").
absl::Status CheckIsSharedLibrary(const std::string& path, const std::string& name) {
  const auto wrong = [&name](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" ", what));
  };
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError(name, errno);
  if (S_ISDIR(info.st_mode)) {
    return wrong("is a directory, not a shared library; name the .so file in it");
  }
  // Opening a pipe would wait for somebody to write to it.
  if (!S_ISREG(info.st_mode)) return wrong("is not a regular file, let alone a shared library");

  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError(name, errno);
  const absl::Cleanup close_file = [file] { close(file); };
  ElfW(Ehdr) header;
  const ssize_t size = pread(file, &header, sizeof(header), 0);
  if (size < 0) return FileError(name, errno);

  if (size < EI_NIDENT || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return wrong("is not a shared library (no ELF file); build it with -shared -fPIC");
  }
  const unsigned char expected_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (header.e_ident[EI_CLASS] != expected_class) {
    return wrong(absl::StrCat("is built for ", sizeof(void*) == 8 ? 32 : 64,
                              "-bit programs, and this one is ", sizeof(void*) * 8,
                              "-bit; build it for this machine"));
  }
  if (size < static_cast<ssize_t>(sizeof(header))) {
    return wrong("is a truncated ELF file; build or copy it again");
  }
  if (header.e_ident[EI_DATA] != kByteOrder || header.e_machine != kMachine) {
    return wrong(absl::StrCat("is built for another processor (ELF machine ", header.e_machine,
                              ", this one is ", kMachine, "); build it for this machine"));
  }
  if (header.e_type != ET_DYN) {
    return wrong("is an ELF file, but not a shared library; link it with -shared");
  }
  return absl::OkStatus();
}

absl::Status DlopenError(const std::string& name, absl::string_view reason) {
  absl::string_view advice;
  if (absl::StrContains(reason, "undefined symbol")) {
    advice =
        "; it uses a symbol that neither it nor the libraries it names define: link it with "
        "the library that does";
  } else if (absl::StrContains(reason, "cannot open shared object file")) {
    advice = "; install the library that it needs, or say where it is in LD_LIBRARY_PATH";
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot load function library \"", name, "\": ", reason, advice));
}

std::string LastDlError() {
  const char* reason = dlerror();
  return reason != nullptr ? reason : "unknown reason";
}

}  // namespace

absl::StatusOr<std::unique_ptr<FunctionLibrary>> FunctionLibrary::Load(
    const std::string& path, const FunctionLibraryOptions& options) {
  if (path.empty()) return absl::InvalidArgumentError("the path of a function library is empty");
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("the path of a function library contains a NUL character");
  }
  // Without a slash dlopen would search the system's library path.
  const std::string file = absl::StrContains(path, '/') ? path : absl::StrCat("./", path);
  const std::string& shown = options.name.empty() ? file : options.name;
  if (absl::Status status = CheckIsSharedLibrary(file, shown); !status.ok()) return status;

  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return DlopenError(shown, LastDlError());
  std::unique_ptr<FunctionLibrary> library(
      new FunctionLibrary(options.name.empty() ? path : options.name, handle));
  if (absl::Status status = library->ReadTable(options); !status.ok()) return status;
  return library;
}

FunctionLibrary::FunctionLibrary(std::string name, void* handle)
    : name_(std::move(name)), handle_(handle) {}

FunctionLibrary::~FunctionLibrary() { dlclose(handle_); }

absl::Status FunctionLibrary::ReadTable(const FunctionLibraryOptions& options) {
  const std::string prefix = absl::StrCat("function library \"", name_, "\" ");
  using Getter = const invoker_module* (*)(void);
  const auto getter = reinterpret_cast<Getter>(dlsym(handle_, "invoker_get_module"));
  if (getter == nullptr) return ReadExports(options);
  const invoker_module* module = getter();
  if (module == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, "returned a null pointer from invoker_get_module"));
  }
  // Before anything else is read: only the position of this member is the same in all versions.
  if (module->abi_version != INVOKER_ABI_VERSION) {
    return absl::FailedPreconditionError(
        absl::StrCat(prefix, "was built for version ", module->abi_version,
                     " of the function ABI, and this program speaks version ", INVOKER_ABI_VERSION,
                     "; build it again with this version's invoker/function.h"));
  }
  if (module->struct_size < sizeof(invoker_module) || module->entry_size < sizeof(invoker_entry)) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, "has a malformed table: a module of ", module->struct_size,
                     " and entries of ", module->entry_size, " bytes, not at least ",
                     sizeof(invoker_module), " and ", sizeof(invoker_entry)));
  }
  if (module->count == 0 || module->entries == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(prefix, "contains no functions"));
  }

  // A registry of its own finds what is wrong within the library.
  FunctionRegistry registry;
  const auto* bytes = reinterpret_cast<const char*>(module->entries);
  for (std::uint32_t i = 0; i < module->count; ++i) {
    // Not entries[i]: a newer library's entries may be longer.
    const auto* entry =
        reinterpret_cast<const invoker_entry*>(bytes + std::size_t{i} * module->entry_size);
    if (entry->name == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(prefix, "has no name for function ", i));
    }
    absl::StatusOr<std::uint16_t> added = registry.Add(
        {entry->name, entry->function, entry->context, entry->doc != nullptr ? entry->doc : "",
         name_, entry->signature != nullptr ? entry->signature : "", entry->concurrency});
    if (absl::IsAlreadyExists(added.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat(prefix, "defines function \"", entry->name, "\" twice; rename one of them"));
    }
    if (!added.ok()) return added.status();
  }
  functions_ = registry.entries();
  return absl::OkStatus();
}

absl::Status FunctionLibrary::ReadExports(const FunctionLibraryOptions& options) {
  const std::string prefix = absl::StrCat("function library \"", name_, "\" ");
  absl::StatusOr<std::vector<ExportedFunction>> exported = ExportedFunctions(handle_);
  if (!exported.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(prefix, "has no invoker_get_module, and its exported functions cannot be ",
                     "found: ", exported.status().message()));
  }
  for (const ExportedFunction& function : *exported) {
    // What no call could name, like C++ code of other compilers.
    if (!function_internal::IsValidName(function.name)) continue;
    rfaas_functions_.push_back(
        {function.name, reinterpret_cast<RfaasSignature>(function.address), options.on_overrun});
  }
  if (rfaas_functions_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        prefix,
        "has no invoker_get_module and exports no plain C function: define a function with "
        "INVOKER_FUNCTION(name, input, output) from invoker/function.h, export that symbol by "
        "hand, or export rFaaS functions (docs/guide/rfaas.md)"));
  }
  for (RfaasFunction& function : rfaas_functions_) {
    functions_.push_back(
        {function.name, &CallRfaasFunction, &function, "an rFaaS function", name_});
  }
  return absl::OkStatus();
}

absl::Status FunctionLibrary::RegisterAll(FunctionRegistry* registry) const {
  if (registry->size() + functions_.size() > FunctionRegistry::kMaxFunctions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("function library \"", name_, "\" has ", functions_.size(),
                     " functions, and with the ", registry->size(),
                     " there are already that is more than ", FunctionRegistry::kMaxFunctions));
  }
  for (const FunctionEntry& function : functions_) {
    if (absl::Status status = registry->CheckAdd(function); !status.ok()) return status;
  }
  for (const FunctionEntry& function : functions_) {
    if (auto added = registry->Add(function); !added.ok()) return added.status();
  }
  return absl::OkStatus();
}

}  // namespace invoker
