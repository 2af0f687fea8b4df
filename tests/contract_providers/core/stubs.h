// An answer for every function of libfabric's tables that is not served: -FI_ENOSYS, or no text.
// A slot that is null crashes its caller.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_STUBS_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_STUBS_H_

#include <rdma/fi_errno.h>

#include <type_traits>

namespace contract {

// One function per signature.
template <typename Return, typename... Arguments>
struct NotServedFunction {
  static Return Call(Arguments...) {
    if constexpr (std::is_pointer_v<Return>) {
      return nullptr;
    } else {
      return static_cast<Return>(-FI_ENOSYS);
    }
  }
};

template <typename Return, typename... Arguments>
constexpr auto NotServed(Return (*)(Arguments...)) -> Return (*)(Arguments...) {
  return &NotServedFunction<Return, Arguments...>::Call;
}

// Fills a slot that nothing is assigned to.
template <typename Function>
void Stub(Function** slot) {
  if (*slot == nullptr) *slot = NotServed(static_cast<Function*>(nullptr));
}

template <typename... Slots>
void StubAll(Slots... slots) {
  (Stub(slots), ...);
}

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_STUBS_H_
