// An array of N dimensions somewhere in memory, in the order of C: the last index moves fastest.
//
// This header needs the standard library only, and may be copied together with function.h.

#ifndef INVOKER_SRC_INVOKE_ARRAY_VIEW_H_
#define INVOKER_SRC_INVOKE_ARRAY_VIEW_H_

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace invoker {

// Points at the elements, and neither owns nor copies them. A parameter of a typed function
// (function.h) views the request, its result may view anything that lives until it returns, and a
// caller views the response. Copying a view is cheap.
template <typename T, std::size_t N = 1>
class ArrayView {
  static_assert(N >= 1 && N <= 8, "an array has 1 to 8 dimensions");

 public:
  using element_type = T;
  using value_type = std::remove_const_t<T>;
  using const_iterator = const T*;
  using Shape = std::array<std::size_t, N>;

  // Empty.
  ArrayView() = default;
  // The first elements at `data`, as many as the shape has.
  ArrayView(T* data, const Shape& shape) : data_(data), shape_(shape) {}
  // A view whose elements may be written also serves where they are only read.
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  ArrayView(const ArrayView<U, N>& other) : data_(other.data()), shape_(other.shape()) {}
  // The elements of a std::vector, a std::array or a span, which stays where it is.
  template <
      typename Container,
      typename = std::enable_if_t<
          N == 1 && !std::is_base_of_v<ArrayView, Container> &&
          std::is_same_v<const std::remove_pointer_t<decltype(std::declval<Container&>().data())>,
                         const T> &&
          std::is_convertible_v<decltype(std::declval<Container&>().data()), T*>>>
  ArrayView(Container&& container) : data_(container.data()), shape_{container.size()} {}

  T* data() const { return data_; }
  const Shape& shape() const { return shape_; }
  std::size_t shape(std::size_t dimension) const { return shape_[dimension]; }
  // Elements of all dimensions together.
  std::size_t size() const {
    std::size_t size = 1;
    for (const std::size_t length : shape_) size *= length;
    return size;
  }
  bool empty() const { return size() == 0; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size(); }

  // The element in the place that the indices name: of each dimension one. Unchecked.
  template <typename... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "one index for each dimension");
    const std::array<std::size_t, N> indices = {static_cast<std::size_t>(index)...};
    std::size_t at = 0;
    for (std::size_t i = 0; i < N; ++i) at = at * shape_[i] + indices[i];
    return data_[at];
  }
  // The element in that place, counted over all dimensions. Unchecked.
  T& operator[](std::size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  Shape shape_ = {};
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_ARRAY_VIEW_H_
