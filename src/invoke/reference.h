// References to data in the memory of a lease's executors, for arguments of typed calls.
//
//   #include "invoker/lease.h"
//
//   absl::StatusOr<double> Dots(invoker::Lease* lease, const std::vector<double>& large) {
//     using Array = invoker::ArrayView<const double>;
//     auto kept = lease->Put(Array(large));
//     if (!kept.ok()) return kept.status();
//     auto dot = lease->executor(0).Function<double(invoker::Reference<Array>, Array)>("dot");
//     if (!dot.ok()) return dot.status();
//     return (*dot)(*kept, large);  // sends `large` once, for the other argument
//   }
//
// The function on the executor takes an array, and does not notice the difference.

#ifndef INVOKER_SRC_INVOKE_REFERENCE_H_
#define INVOKER_SRC_INVOKE_REFERENCE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "invoker/export.h"
#include "invoker/values.h"

namespace invoker {

class StoredValue;

// A reference whose type is known at run time only. A value: copies are the same reference. Any
// thread.
class INVOKER_EXPORT UntypedReference {
 public:
  using Id = std::array<std::byte, kReferenceBytes>;

  explicit UntypedReference(std::shared_ptr<StoredValue> value) : value_(std::move(value)) {}

  const Id& id() const;
  // What a signature calls it: "f64[:]".
  const std::string& type() const;
  // In each executor.
  std::size_t bytes() const;

  // Frees the data in all executors, as the end of the last copy does: that of a call that has been
  // started and has not ended counts, too. Calls that arrive there later fail. Does not block. If
  // the windows have no room for the request now, it leaves with the next one of the lease's.
  void Free();
  bool freed() const;

 private:
  std::shared_ptr<StoredValue> value_;
};

namespace values_internal {

// Whether T travels as an array.
template <typename T, typename = void>
struct IsArray : std::false_type {};
template <typename T>
struct IsArray<T, std::void_t<typename Value<T>::Elements>> : std::true_type {};
template <typename T>
struct IsArray<std::vector<T>> : std::bool_constant<Value<std::vector<T>>::kIsArray> {};

}  // namespace values_internal

// To an array of type T, such as ArrayView<const double, 2>: stands for a T in the signature of a
// typed function that is called, Function<double(Reference<T>)>.
template <typename T>
class Reference : public UntypedReference {
  static_assert(values_internal::IsArray<T>::value,
                "only arrays are stored: an ArrayView, a span or a vector of numbers or structs");

 public:
  explicit Reference(UntypedReference reference) : UntypedReference(std::move(reference)) {}
};

// Travels in place of the array. No function of an executor has such a parameter.
template <typename T>
struct Value<Reference<T>> {
  static constexpr bool kIsView = false;
  static std::string Name() { return Value<T>::Name(); }
  static std::size_t Size(const Reference<T>&) { return sizeof(kReferenceMark) + kReferenceBytes; }
  static std::byte* Write(const Reference<T>& reference, std::byte* to) {
    to = values_internal::WriteWord(kReferenceMark, to);
    return std::copy(reference.id().begin(), reference.id().end(), to);
  }
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_REFERENCE_H_
