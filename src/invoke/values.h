// Turns values of C++ types into bytes and back, and names those types in signatures. C++ and
// Python share the bytes and the names: docs/reference/typed_calls.md.
//
// A value begins and ends at a multiple of 8 bytes from the beginning of its message, so that
// arrays are read where they lie. Functions and callers use these types by way of function.h and
// client.h.
//
// This header needs array_view.h, elements.h and the standard library only.

#ifndef INVOKER_SRC_INVOKE_VALUES_H_
#define INVOKER_SRC_INVOKE_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "invoker/array_view.h"
#include "invoker/elements.h"

namespace invoker {

// Stands for an array whose bytes are elsewhere (reference.h), in the place of the length of its
// first dimension. What identifies the array follows.
inline constexpr std::uint64_t kReferenceMark = ~std::uint64_t{0};
inline constexpr std::size_t kReferenceBytes = 16;

// Reads values one after the other, out of bytes that anybody may have sent.
class ValueReader {
 public:
  // Finds the array of this type that a reference stands for: `found` reads it. False: there is
  // none.
  using FindReferred = bool (*)(void* context, const std::byte* reference, const std::string& type,
                                ValueReader* found);

  // Without `find` there are no references.
  ValueReader(const void* data, std::size_t size, FindReferred find = nullptr,
              void* context = nullptr)
      : at_(static_cast<const std::byte*>(data)), left_(size), find_(find), context_(context) {}

  // The next bytes and what fills them up to a multiple of 8; nullptr if there are not so many.
  const std::byte* Take(std::uint64_t size) {
    if (size > left_ || (size + 7) / 8 * 8 > left_) return nullptr;
    const std::byte* const taken = at_;
    const auto padded = static_cast<std::size_t>((size + 7) / 8 * 8);
    at_ += padded;
    left_ -= padded;
    return taken;
  }
  bool TakeWord(std::uint64_t* word) {
    const std::byte* const from = Take(sizeof(*word));
    if (from != nullptr) std::memcpy(word, from, sizeof(*word));
    return from != nullptr;
  }
  std::size_t left() const { return left_; }

  bool IsAtReference() const {
    std::uint64_t word = 0;
    if (find_ == nullptr || left_ < sizeof(word)) return false;
    std::memcpy(&word, at_, sizeof(word));
    return word == kReferenceMark;
  }
  // After IsAtReference: FindReferred.
  bool TakeReference(const std::string& type, ValueReader* found) {
    const std::byte* const from = Take(sizeof(kReferenceMark) + kReferenceBytes);
    return from != nullptr && find_(context_, from + sizeof(kReferenceMark), type, found);
  }

 private:
  const std::byte* at_;
  std::size_t left_;
  FindReferred find_;
  void* context_;
};

// What a type is in messages; specialized below for every type that can travel:
//   Name()            the type's name in a signature
//   kIsView           whether a value that has been read points into the message
//   Size(value)       its bytes, a multiple of 8
//   Write(value, to)  writes so many bytes there, and returns their end
//   Read(reader, to)  false if the bytes are no such value
//   kHeadBytes        views only: what lies before the bytes that it views
template <typename T, typename Enable = void>
struct Value {
  static_assert(!std::is_same_v<T, T>,
                "no such type travels in a typed call: use numbers, std::string, std::vector, "
                "std::optional, std::tuple, ArrayView, spans, protobuf messages, or describe a "
                "struct by INVOKER_STRUCT");
};

namespace values_internal {

inline constexpr std::size_t Padded(std::size_t size) { return (size + 7) / 8 * 8; }

inline std::byte* WriteWord(std::uint64_t word, std::byte* to) {
  std::memcpy(to, &word, sizeof(word));
  return to + sizeof(word);
}

// `size` bytes, and zeros up to a multiple of 8. They may lie there already.
inline std::byte* WriteBytes(const void* from, std::size_t size, std::byte* to) {
  if (size != 0 && from != to) std::memmove(to, from, size);
  const std::size_t padded = Padded(size);
  if (padded != size) std::memset(to + size, 0, padded - size);
  return to + padded;
}

// std::span, absl::Span and the like, of elements that need no copy.
template <typename T, typename = void>
struct IsSpan : std::false_type {};
template <typename T>
struct IsSpan<T, std::void_t<decltype(std::declval<T>().data()), decltype(std::declval<T>().size()),
                             typename T::value_type>>
    : std::bool_constant<
          std::is_trivially_copyable_v<T> && !std::is_same_v<T, std::string_view> &&
          std::is_constructible_v<T, decltype(std::declval<T>().data()), std::size_t>> {};

// A message of protobuf, which this header does not include.
template <typename T, typename = void>
struct IsMessage : std::false_type {};
template <typename T>
struct IsMessage<T, std::void_t<decltype(T::descriptor()->full_name()),
                                decltype(std::declval<const T&>().ByteSizeLong())>>
    : std::true_type {};

// Reads the lengths of so many dimensions, and returns the elements behind them; nullptr if the
// bytes are no such array.
inline const std::byte* TakeElements(ValueReader* reader, std::size_t element_size,
                                     std::size_t dimensions, std::size_t* shape) {
  std::uint64_t bytes = element_size;
  // An array without elements may have other dimensions of any length.
  bool empty = false;
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::uint64_t length = 0;
    if (!reader->TakeWord(&length)) return nullptr;
    shape[i] = static_cast<std::size_t>(length);
    if (length == 0) empty = true;
    if (!empty && __builtin_mul_overflow(bytes, length, &bytes)) return nullptr;
  }
  return reader->Take(empty ? 0 : bytes);
}

// Elements that lie behind each other: the words of the shape, and then the elements.
template <typename T, std::size_t N>
struct Elements {
  static_assert(kIsElement<T> || (N == 1 && std::is_same_v<T, std::byte>),
                "the elements of an array are numbers, or structs that INVOKER_STRUCT describes");
  static_assert(alignof(T) <= 8, "the elements of an array need an alignment of at most 8");

  static std::string Name() {
    if constexpr (std::is_same_v<T, std::byte>) {
      return "bytes";
    } else {
      std::string name = ElementName<T>() + "[:";
      for (std::size_t i = 1; i < N; ++i) name += ", :";
      return name + "]";
    }
  }
  static std::size_t Size(std::size_t elements) { return 8 * N + Padded(elements * sizeof(T)); }
  static std::byte* Write(const T* data, const std::size_t* shape, std::byte* to) {
    std::size_t elements = 1;
    for (std::size_t i = 0; i < N; ++i) {
      to = WriteWord(shape[i], to);
      elements *= shape[i];
    }
    return WriteBytes(data, elements * sizeof(T), to);
  }
  static bool Read(ValueReader* reader, const T** data, std::size_t* shape) {
    if (reader->IsAtReference()) return ReadReferred(reader, data, shape);
    return Take(reader, data, shape);
  }

 private:
  static bool ReadReferred(ValueReader* reader, const T** data, std::size_t* shape) {
    ValueReader found(nullptr, 0);
    if (!reader->TakeReference(Name(), &found)) return false;
    return Take(&found, data, shape) && found.left() == 0;
  }
  static bool Take(ValueReader* reader, const T** data, std::size_t* shape) {
    const std::byte* const bytes = TakeElements(reader, sizeof(T), N, shape);
    *data = reinterpret_cast<const T*>(bytes);
    if (bytes == nullptr) return false;
    std::size_t elements = 1;
    for (std::size_t i = 0; i < N; ++i) elements *= shape[i];
    return HasValidBools<T>(bytes, elements);
  }
};

// Values that lie behind each other.
template <typename Tuple, std::size_t... I>
std::string NamesOf(std::index_sequence<I...>) {
  std::string names;
  ((names += (I == 0 ? "" : ", ") + Value<std::tuple_element_t<I, Tuple>>::Name()), ...);
  return names;
}
template <typename Tuple>
std::string NamesOf() {
  return NamesOf<Tuple>(std::make_index_sequence<std::tuple_size_v<Tuple>>());
}

}  // namespace values_internal

// Numbers and structs.
template <typename T>
struct Value<T, std::enable_if_t<values_internal::kIsElement<T>>> {
  static_assert(std::is_trivially_copyable_v<T>, "only trivially copyable structs travel");
  static constexpr bool kIsView = false;
  static std::string Name() { return values_internal::ElementName<T>(); }
  static std::size_t Size(const T&) { return values_internal::Padded(sizeof(T)); }
  static std::byte* Write(const T& value, std::byte* to) {
    return values_internal::WriteBytes(&value, sizeof(T), to);
  }
  static bool Read(ValueReader* reader, T* value) {
    const std::byte* const from = reader->Take(values_internal::Padded(sizeof(T)));
    if (from == nullptr || !values_internal::HasValidBools<T>(from, 1)) return false;
    std::memcpy(value, from, sizeof(T));
    return true;
  }
};

// Text, in UTF-8.
template <typename T>
struct Value<
    T, std::enable_if_t<std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>>> {
  static constexpr bool kIsView = std::is_same_v<T, std::string_view>;
  static constexpr std::size_t kHeadBytes = 8;
  static std::string Name() { return "str"; }
  static std::size_t Size(const T& text) { return 8 + values_internal::Padded(text.size()); }
  static std::byte* Write(const T& text, std::byte* to) {
    to = values_internal::WriteWord(text.size(), to);
    return values_internal::WriteBytes(text.data(), text.size(), to);
  }
  static bool Read(ValueReader* reader, T* text) {
    std::uint64_t size = 0;
    if (!reader->TakeWord(&size)) return false;
    const std::byte* const from = reader->Take(size);
    if (from == nullptr) return false;
    *text = T(reinterpret_cast<const char*>(from), static_cast<std::size_t>(size));
    return true;
  }
};

template <typename T, std::size_t N>
struct Value<ArrayView<T, N>> {
  using Elements = values_internal::Elements<std::remove_const_t<T>, N>;
  static constexpr bool kIsView = true;
  static constexpr std::size_t kHeadBytes = 8 * N;
  static std::string Name() { return Elements::Name(); }
  static std::size_t Size(const ArrayView<T, N>& view) { return Elements::Size(view.size()); }
  static std::byte* Write(const ArrayView<T, N>& view, std::byte* to) {
    return Elements::Write(view.data(), view.shape().data(), to);
  }
  static bool Read(ValueReader* reader, ArrayView<T, N>* view) {
    const std::remove_const_t<T>* data = nullptr;
    typename ArrayView<T, N>::Shape shape;
    if (!Elements::Read(reader, &data, shape.data())) return false;
    // A request is not to be changed, but a function may say T for const T.
    *view = ArrayView<T, N>(const_cast<T*>(data), shape);
    return true;
  }
};

// Spans: arrays of one dimension.
template <typename T>
struct Value<T, std::enable_if_t<values_internal::IsSpan<T>::value>> {
  using Element = std::remove_const_t<std::remove_pointer_t<decltype(std::declval<T>().data())>>;
  using Elements = values_internal::Elements<Element, 1>;
  static constexpr bool kIsView = true;
  static constexpr std::size_t kHeadBytes = 8;
  static std::string Name() { return Elements::Name(); }
  static std::size_t Size(const T& span) { return Elements::Size(span.size()); }
  static std::byte* Write(const T& span, std::byte* to) {
    const std::size_t size = span.size();
    return Elements::Write(span.data(), &size, to);
  }
  static bool Read(ValueReader* reader, T* span) {
    const Element* data = nullptr;
    std::size_t size = 0;
    if (!Elements::Read(reader, &data, &size)) return false;
    *span = T(const_cast<Element*>(data), size);
    return true;
  }
};

// An array of one dimension if its elements may be an array's, which is copied; else a list.
template <typename T>
struct Value<std::vector<T>> {
  static_assert(!std::is_same_v<T, bool>, "use std::vector<std::uint8_t>");
  static constexpr bool kIsArray = values_internal::kIsElement<T> || std::is_same_v<T, std::byte>;
  static constexpr bool IsViewOfView() {
    if constexpr (kIsArray)
      return false;
    else
      return Value<T>::kIsView;
  }
  static constexpr bool kIsView = IsViewOfView();
  static std::string Name() {
    if constexpr (kIsArray)
      return values_internal::Elements<T, 1>::Name();
    else
      return "list[" + Value<T>::Name() + "]";
  }
  static std::size_t Size(const std::vector<T>& list) {
    if constexpr (kIsArray) {
      return values_internal::Elements<T, 1>::Size(list.size());
    } else {
      std::size_t size = 8;
      for (const T& value : list) size += Value<T>::Size(value);
      return size;
    }
  }
  static std::byte* Write(const std::vector<T>& list, std::byte* to) {
    const std::size_t count = list.size();
    if constexpr (kIsArray) {
      return values_internal::Elements<T, 1>::Write(list.data(), &count, to);
    } else {
      to = values_internal::WriteWord(count, to);
      for (const T& value : list) to = Value<T>::Write(value, to);
      return to;
    }
  }
  static bool Read(ValueReader* reader, std::vector<T>* list) {
    if constexpr (kIsArray) {
      const T* data = nullptr;
      std::size_t size = 0;
      if (!values_internal::Elements<T, 1>::Read(reader, &data, &size)) return false;
      list->assign(data, data + size);
      return true;
    } else {
      std::uint64_t count = 0;
      // Every value has 8 bytes or more, so a false count takes no memory.
      if (!reader->TakeWord(&count) || count > reader->left() / 8) return false;
      list->resize(static_cast<std::size_t>(count));
      for (T& value : *list) {
        if (!Value<T>::Read(reader, &value)) return false;
      }
      return true;
    }
  }
};

template <typename T>
struct Value<std::optional<T>> {
  static constexpr bool kIsView = Value<T>::kIsView;
  static std::string Name() { return "optional[" + Value<T>::Name() + "]"; }
  static std::size_t Size(const std::optional<T>& value) {
    return 8 + (value.has_value() ? Value<T>::Size(*value) : 0);
  }
  static std::byte* Write(const std::optional<T>& value, std::byte* to) {
    to = values_internal::WriteWord(value.has_value() ? 1 : 0, to);
    return value.has_value() ? Value<T>::Write(*value, to) : to;
  }
  static bool Read(ValueReader* reader, std::optional<T>* value) {
    std::uint64_t there = 0;
    value->reset();
    if (!reader->TakeWord(&there) || there > 1) return false;
    return there == 0 || Value<T>::Read(reader, &value->emplace());
  }
};

template <typename... T>
struct Value<std::tuple<T...>> {
  using Tuple = std::tuple<T...>;
  static constexpr bool kIsView = (false || ... || Value<T>::kIsView);
  static std::string Name() {
    return "(" + values_internal::NamesOf<Tuple>() + (sizeof...(T) == 1 ? ",)" : ")");
  }
  static std::size_t Size(const Tuple& values) {
    return std::apply(
        [](const T&... value) { return (std::size_t{0} + ... + Value<T>::Size(value)); }, values);
  }
  static std::byte* Write(const Tuple& values, std::byte* to) {
    std::apply([&to](const T&... value) { ((to = Value<T>::Write(value, to)), ...); }, values);
    return to;
  }
  static bool Read(ValueReader* reader, Tuple* values) {
    return std::apply(
        [reader](T&... value) { return (true && ... && Value<T>::Read(reader, &value)); }, *values);
  }
};

// Messages of protobuf.
template <typename T>
struct Value<T, std::enable_if_t<values_internal::IsMessage<T>::value>> {
  static constexpr bool kIsView = false;
  static std::string Name() {
    return "protobuf[" + std::string(T::descriptor()->full_name()) + "]";
  }
  static std::size_t Size(const T& message) {
    return 8 + values_internal::Padded(message.ByteSizeLong());
  }
  static std::byte* Write(const T& message, std::byte* to) {
    const std::size_t size = message.ByteSizeLong();
    to = values_internal::WriteWord(size, to);
    message.SerializeToArray(to, static_cast<int>(size));
    return values_internal::WriteBytes(to, size, to);
  }
  static bool Read(ValueReader* reader, T* message) {
    std::uint64_t size = 0;
    if (!reader->TakeWord(&size) || size > INT32_MAX) return false;
    const std::byte* const from = reader->Take(size);
    return from != nullptr && message->ParseFromArray(from, static_cast<int>(size));
  }
};

namespace values_internal {

// What travels for a parameter or result of type T: `const std::string&` travels as std::string.
template <typename T>
using Traveling = std::remove_cv_t<std::remove_reference_t<T>>;

template <typename R>
std::string ResultName() {
  if constexpr (std::is_void_v<R>)
    return "None";
  else
    return Value<R>::Name();
}

// "(f64[:], str) -> bool".
template <typename R, typename Parameters>
std::string SignatureOf() {
  return "(" + NamesOf<Parameters>() + ") -> " + ResultName<R>();
}

}  // namespace values_internal
}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_VALUES_H_
