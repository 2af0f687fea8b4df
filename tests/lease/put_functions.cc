// Functions that take arrays, for put_test.

#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "invoker/function.h"

namespace {

using Array = invoker::ArrayView<const double>;

struct Held {
  invoker::Reply<double> reply;
  Array array;
};
std::optional<Held> held;

}  // namespace

// The sum, and where the elements are.
INVOKER_FUNCTION(put.sum, (Array array)->std::tuple<double, std::uint64_t>) {
  return {std::accumulate(array.begin(), array.end(), 0.0),
          reinterpret_cast<std::uint64_t>(array.data())};
}

INVOKER_FUNCTION(put.dot, (Array a, Array b)->double) {
  if (a.size() != b.size()) throw std::invalid_argument("the arrays differ in length");
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

INVOKER_FUNCTION(put.corner, (invoker::ArrayView<const float, 2> matrix)->float) {
  return matrix(matrix.shape(0) - 1, matrix.shape(1) - 1);
}

// Answers put.hold's caller, with a look at its array.
INVOKER_FUNCTION(put.let_go, ()->bool) {
  if (!held.has_value()) return false;
  held->reply(std::accumulate(held->array.begin(), held->array.end(), 0.0));
  held.reset();
  return true;
}

INVOKER_FUNCTION(put.hold, (invoker::Reply<double> reply, Array array)->void) {
  held.emplace(Held{std::move(reply), array});
}
