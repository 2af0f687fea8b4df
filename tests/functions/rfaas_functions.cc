// Functions with rFaaS's signature, among symbols that are none. Includes nothing of Invoker.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>

// Offered.

extern "C" std::uint32_t rfaas_reverse(void* args, std::uint32_t size, void* res) {
  const char* input = static_cast<const char*>(args);
  std::reverse_copy(input, input + size, static_cast<char*>(res));
  return size;
}

// Like rFaaS's own example: copies one int, and says that it has written as much as it has read.
extern "C" std::uint32_t empty(void* args, std::uint32_t size, void* res) {
  std::memcpy(res, args, sizeof(int));
  return size;
}

// Uses its input as scratch memory.
extern "C" std::uint32_t rfaas_sort(void* args, std::uint32_t size, void* res) {
  auto* bytes = static_cast<unsigned char*>(args);
  std::sort(bytes, bytes + size);
  std::memcpy(res, bytes, size);
  return size;
}

extern "C" std::uint32_t rfaas_nothing(void*, std::uint32_t, void*) { return 0; }

// Writes nothing, and claims to have written more than there ever is room for.
extern "C" std::uint32_t rfaas_overrun(void*, std::uint32_t, void*) { return 0xFFFFFFFF; }

extern "C" std::uint32_t rfaas_throw(void*, std::uint32_t, void*) {
  throw std::runtime_error("thrown by an rFaaS function");
}

// Not offered: C++, data, hidden, of this file only, reserved names, merely used.

std::uint32_t rfaas_mangled(void*, std::uint32_t, void*) { return 1; }

extern "C" {
int rfaas_data = 7;
extern const int rfaas_constant = 8;

__attribute__((visibility("hidden"))) std::uint32_t rfaas_hidden(void*, std::uint32_t, void*) {
  return 2;
}

std::uint32_t _rfaas_reserved(void*, std::uint32_t, void*) { return 3; }
std::uint32_t __rfaas_reserved_twice(void*, std::uint32_t, void*) {
  return rfaas_hidden({}, 0, {});
}
}
