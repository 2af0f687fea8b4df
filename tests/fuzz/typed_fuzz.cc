// The arguments of typed functions, which anybody who may call them can send, and signatures, which
// a worker tells its callers.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "invoker/function.h"
#include "src/invoke/function/signature.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"
#include "tests/invoke/values_test.pb.h"

namespace invoker::fuzz {

struct Particle {
  double position[3];
  float mass;
  int32_t id;
};
INVOKER_STRUCT(Particle, position, mass, id);

namespace {

// Has a reader of every kind. What it returns is read again below.
using Everything =
    std::tuple<bool, int8_t, uint64_t, float, std::string, std::string_view, Particle,
               std::vector<Particle>, ArrayView<const double, 3>, std::vector<std::string>,
               std::optional<std::tuple<int32_t, std::vector<std::string_view>>>,
               std::vector<std::vector<uint16_t>>, std::vector<std::byte>, ArrayView<const bool>,
               std::optional<values_test::Note>>;

template <typename T>
T Same(T value) {
  return value;
}

// The data of every reference whose first byte is even: whatever bytes follow the reference's.
int32_t FindData(const invoker_call* call, const uint8_t* reference, invoker_stored_data* found) {
  if (reference[0] % 2 != 0) return INVOKER_FAILED;
  const auto* const end = static_cast<const uint8_t*>(call->input) + call->input_size;
  found->data = reference + INVOKER_REFERENCE_BYTES;
  found->size = static_cast<uint64_t>(end - static_cast<const uint8_t*>(found->data));
  found->type = reference[1] % 2 == 0 ? "u16[:]" : static_cast<const char*>(call->worker);
  return 0;
}

template <typename T>
void CheckArguments(absl::string_view request) {
  static const std::string type = Value<T>::Name();
  invoker_services services = {};
  services.struct_size = sizeof(services);
  services.find_data = &FindData;
  // Has the size of the request, so that a reader that goes too far is noticed.
  const std::vector<std::byte> input(
      reinterpret_cast<const std::byte*>(request.data()),
      reinterpret_cast<const std::byte*>(request.data()) + request.size());
  std::vector<std::byte> output(request.size() + 1);
  char error[INVOKER_MIN_ERROR_CAPACITY] = "";
  invoker_call call = {};
  call.struct_size = sizeof(call);
  call.input = input.data();
  call.input_size = input.size();
  call.output = output.data();
  call.output_capacity = request.size();
  call.services = &services;
  call.worker = const_cast<char*>(type.c_str());
  call.error = error;
  call.error_capacity = sizeof(error);
  const int64_t size = function_internal::Call(&Same<T>, &call);
  if (size < 0) {
    FUZZ_CHECK(size == INVOKER_OUTPUT_TOO_SMALL ? call.output_needed > request.size()
                                                : error[0] != '\0');
    return;
  }
  // What has been written is read as the same value, and written alike.
  const std::vector<std::byte> again(output.begin(), output.begin() + size);
  call.input = again.data();
  call.input_size = again.size();
  FUZZ_CHECK(function_internal::Call(&Same<T>, &call) == size);
  FUZZ_CHECK(memcmp(output.data(), again.data(), again.size()) == 0);
}

void CheckSignature(absl::string_view text) {
  const absl::StatusOr<Signature> parsed = Signature::Parse(text);
  if (!parsed.ok()) {
    FUZZ_CHECK(!parsed.status().message().empty());
    return;
  }
  const std::string canonical = parsed->ToString();
  // Blanks make it longer than what may be read again.
  if (canonical.size() > Signature::kMostBytes) return;
  const absl::StatusOr<Signature> again = Signature::Parse(canonical);
  FUZZ_CHECK(again.ok() && again->ToString() == canonical);
}

}  // namespace
}  // namespace invoker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace invoker::fuzz;
  Input input(data, size);
  switch (input.Pick(4)) {
    case 0:
      CheckSignature(input.Rest());
      break;
    case 1:
      CheckArguments<Everything>(input.Rest());
      break;
    case 2:
      CheckArguments<std::vector<std::vector<std::string>>>(input.Rest());
      break;
    default:
      CheckArguments<invoker::ArrayView<const Particle, 2>>(input.Rest());
  }
  return 0;
}
