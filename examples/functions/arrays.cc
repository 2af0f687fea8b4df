// dot and scale: functions of numpy arrays, or of any arrays of C++.
//
//   dot    (f64[:], f64[:]) -> f64              the scalar product
//   scale  (f64[:, :], f64) -> f64[:, :]        each element times a number

#include <cstddef>
#include <numeric>
#include <stdexcept>

#include "invoker/function.h"

using invoker::ArrayView;

INVOKER_FUNCTION(dot, (ArrayView<const double> a, ArrayView<const double> b)->double) {
  if (a.size() != b.size()) throw std::invalid_argument("dot: the arrays differ in length");
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

INVOKER_DOC(dot, "the scalar product");

INVOKER_FUNCTION(scale, (invoker::Context context, ArrayView<const double, 2> matrix, double factor)
                            ->ArrayView<double, 2>) {
  // In the response itself, so that nothing is copied.
  ArrayView<double, 2> scaled = context.NewArray<double>(matrix.shape(0), matrix.shape(1));
  for (std::size_t i = 0; i < matrix.size(); ++i) scaled[i] = factor * matrix[i];
  return scaled;
}
INVOKER_DOC(scale, "each element times a number");
