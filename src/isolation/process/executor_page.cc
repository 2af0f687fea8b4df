#include "src/isolation/process/executor_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

// Most of its pages are never touched.
constexpr size_t kPageBytes = sizeof(ExecutorPage);

absl::Status Failed(const char* what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot share a page with an executor: ", what, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<std::pair<MappedPage, UniqueFd>> MappedPage::Create() {
  UniqueFd fd(memfd_create("invoker_executor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Failed("memfd_create");
  if (ftruncate(fd.get(), kPageBytes) != 0) return Failed("ftruncate");
  // Else the other process could make it shorter, and reading it would be a fault.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Failed("F_ADD_SEALS");
  }
  absl::StatusOr<MappedPage> page = Map(fd.get());
  if (!page.ok()) return page.status();
  return std::make_pair(*std::move(page), std::move(fd));
}

absl::StatusOr<MappedPage> MappedPage::Map(int fd) {
  // Zeros are what every member begins with.
  void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return Failed("mmap");
  return MappedPage(static_cast<ExecutorPage*>(page));
}

MappedPage::~MappedPage() {
  if (page_ != nullptr) munmap(page_, kPageBytes);
}

}  // namespace invoker
