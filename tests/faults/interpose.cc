// fi_fabric and fi_getinfo of this process, and mmap as its own objects call it (the linker's
// --wrap, see BUILD.bazel): what faults begin with.

#include <dlfcn.h>
#include <sys/mman.h>

#include <cerrno>

#include "tests/faults/faulty_objects.h"

namespace {

using invoker::faults::FaultControl;

// A layered provider opens the one below it inside these calls, which is left alone.
thread_local int depth = 0;

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  static const auto real = Real<decltype(&fi_fabric)>("fi_fabric");
  if (depth == 0) {
    FaultControl::Get().LookAtEnvironment();
    if (FaultControl::Get().OpeningFails()) return -FI_ENOMEM;
  }
  ++depth;
  const int code = real(attributes, fabric, context);
  --depth;
  if (code == 0 && depth == 0) new invoker::faults::FaultyFabric(*fabric);
  return code;
}

extern "C" int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
                          const fi_info* hints, fi_info** info) {
  static const auto real = Real<decltype(&fi_getinfo)>("fi_getinfo");
  if (depth == 0 && FaultControl::Get().OpeningFails()) return -FI_ENOMEM;
  ++depth;
  const int code = real(version, node, service, flags, hints, info);
  --depth;
  return code;
}

extern "C" void* __real_mmap(void* address, size_t length, int protection, int flags, int fd,
                             off_t offset);
extern "C" void* __wrap_mmap(void* address, size_t length, int protection, int flags, int fd,
                             off_t offset) {
  if ((flags & MAP_ANONYMOUS) != 0 && FaultControl::Get().MappingFails()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return __real_mmap(address, length, protection, flags, fd, offset);
}
