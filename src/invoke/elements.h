// What an array in a typed call may have as elements: numbers, and structs of numbers.
//
// This header needs the standard library only.

#ifndef INVOKER_SRC_INVOKE_ELEMENTS_H_
#define INVOKER_SRC_INVOKE_ELEMENTS_H_

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace invoker {

// A field of a struct, for INVOKER_STRUCT.
struct StructField {
  std::string_view name;
  std::string (*type)();
  std::size_t offset;
  std::size_t size;
  std::size_t alignment;
  bool is_bool;  // or an array of bool
};

namespace values_internal {

template <typename T>
struct IsComplex : std::false_type {};
template <>
struct IsComplex<std::complex<float>> : std::true_type {};
template <>
struct IsComplex<std::complex<double>> : std::true_type {};

template <typename T>
inline constexpr bool kIsNumber = (std::is_arithmetic_v<T> && sizeof(T) <= 8 &&
                                   !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char16_t> &&
                                   !std::is_same_v<T, char32_t>) ||
                                  IsComplex<T>::value;

template <typename T>
std::string NumberName() {
  if constexpr (std::is_same_v<T, bool>) return "bool";
  const std::string bits = std::to_string(8 * sizeof(T));
  if constexpr (IsComplex<T>::value) return "c" + bits;
  if constexpr (std::is_floating_point_v<T>) return "f" + bits;
  return (std::is_signed_v<T> ? "i" : "u") + bits;
}

// Has been described by INVOKER_STRUCT.
template <typename T, typename = void>
struct IsStruct : std::false_type {};
template <typename T>
struct IsStruct<T, std::void_t<decltype(InvokerFieldsOf(static_cast<const T*>(nullptr)))>>
    : std::true_type {};

// What an array may have as elements.
template <typename T>
inline constexpr bool kIsElement = kIsNumber<T> || IsStruct<T>::value;

// A name for a field: a number's, or f64[3] for three of them.
template <typename T>
std::string FieldName() {
  using Number = std::remove_all_extents_t<T>;
  static_assert(kIsNumber<Number> && std::rank_v<T> <= 1,
                "a field is a number, or an array of numbers such as double position[3]");
  if constexpr (std::rank_v<T> == 0) return NumberName<Number>();
  return NumberName<Number>() + "[" + std::to_string(std::extent_v<T>) + "]";
}

template <std::size_t N>
constexpr bool IsNatural(const StructField (&fields)[N], std::size_t size, std::size_t alignment) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < N; ++i) {
    const std::size_t begin = (end + fields[i].alignment - 1) / fields[i].alignment;
    if (fields[i].offset != begin * fields[i].alignment) return false;
    end = fields[i].offset + fields[i].size;
  }
  return (end + alignment - 1) / alignment * alignment == size;
}

// Whether every bool among the elements is 0 or 1, as C++ needs it: the bytes are a peer's.
template <typename T>
bool HasValidBools(const std::byte* data, std::size_t elements) {
  const auto are_valid = [](const std::byte* bools, std::size_t count) {
    return std::all_of(bools, bools + count, [](std::byte byte) { return byte <= std::byte{1}; });
  };
  if constexpr (std::is_same_v<T, bool>) return are_valid(data, elements);
  if constexpr (IsStruct<T>::value) {
    for (const StructField& field : InvokerFieldsOf(static_cast<const T*>(nullptr))) {
      if (!field.is_bool) continue;
      for (std::size_t i = 0; i < elements; ++i) {
        if (!are_valid(data + i * sizeof(T) + field.offset, field.size)) return false;
      }
    }
  }
  return true;
}

template <typename T>
std::string ElementName() {
  if constexpr (kIsNumber<T>) {
    return NumberName<T>();
  } else {
    std::string name = "{";
    for (const StructField& field : InvokerFieldsOf(static_cast<const T*>(nullptr))) {
      if (name.size() > 1) name += ", ";
      name += std::string(field.name) + ": " + field.type();
    }
    return name + "}";
  }
}

}  // namespace values_internal
}  // namespace invoker

#define INVOKER_INTERNAL_FIELD(type, field)                                         \
  ::invoker::StructField {                                                          \
#field, &::invoker::values_internal::FieldName < decltype(type::field)>,        \
        offsetof(type, field), sizeof(type::field), alignof(decltype(type::field)), \
        std::is_same_v < std::remove_all_extents_t < decltype(type::field)>, bool>  \
  }
#define INVOKER_INTERNAL_FIELDS_1(T, a) INVOKER_INTERNAL_FIELD(T, a)
#define INVOKER_INTERNAL_FIELDS_2(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_1(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_3(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_2(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_4(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_3(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_5(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_4(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_6(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_5(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_7(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_6(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_8(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_7(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_9(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_8(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_10(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_9(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_11(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_10(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_12(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_11(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_13(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_12(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_14(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_13(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_15(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_14(T, __VA_ARGS__)
#define INVOKER_INTERNAL_FIELDS_16(T, a, ...) \
  INVOKER_INTERNAL_FIELD(T, a), INVOKER_INTERNAL_FIELDS_15(T, __VA_ARGS__)
#define INVOKER_INTERNAL_COUNTED(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define INVOKER_INTERNAL_JOIN(a, b) a##b
#define INVOKER_INTERNAL_JOIN_EXPANDED(a, b) INVOKER_INTERNAL_JOIN(a, b)

// Describes a trivially copyable struct by its fields, 1 to 16, in their order, so that it travels:
//
//   struct Particle {
//     double position[3];
//     float mass;
//     std::int32_t id;
//   };
//   INVOKER_STRUCT(Particle, position, mass, id);
//
// Fields are numbers, or arrays of numbers; all of them must be named. In the struct's namespace.
// Its bytes travel as they are, those between fields included. In Python it is the numpy type
// np.dtype([("position", "f8", 3), ("mass", "f4"), ("id", "i4")], align=True).
#define INVOKER_STRUCT(type, ...)                                                                 \
  inline const auto& InvokerFieldsOf(const type*) {                                               \
    static constexpr ::invoker::StructField fields[] = {INVOKER_INTERNAL_JOIN_EXPANDED(           \
        INVOKER_INTERNAL_FIELDS_, INVOKER_INTERNAL_COUNTED(__VA_ARGS__, 16, 15, 14, 13, 12, 11,   \
                                                           10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))(    \
        type, __VA_ARGS__)};                                                                      \
    static_assert(::invoker::values_internal::IsNatural(fields, sizeof(type), alignof(type)),     \
                  "INVOKER_STRUCT names every field of the struct, in its order, and the struct " \
                  "is not packed");                                                               \
    return fields;                                                                                \
  }                                                                                               \
  static_assert(std::is_trivially_copyable_v<type>, "only trivially copyable structs travel")

#endif  // INVOKER_SRC_INVOKE_ELEMENTS_H_
