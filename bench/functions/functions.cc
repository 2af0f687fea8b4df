// The functions that benchmarks call.

#include <chrono>
#include <thread>

#include "invoker/function.h"

// noop: as many bytes as it got, with whatever is in them. What a call costs without a function.
INVOKER_FUNCTION(noop, input, output) {
  if (!output.Resize(input.size())) return invoker::Result::TooSmall(input.size());
  return invoker::Result::Ok();
}

// echo: the input, unchanged.
INVOKER_FUNCTION(echo, input, output) {
  output.Append(input.data(), input.size());
  return invoker::Result::Ok();
}

// sink: nothing, whatever it got. Requests alone.
INVOKER_FUNCTION(sink, input, output) { return invoker::Result::Ok(); }

// half: half as many bytes as it got, with whatever is in them.
INVOKER_FUNCTION(half, input, output) {
  if (!output.Resize(input.size() / 2)) return invoker::Result::TooSmall(input.size() / 2);
  return invoker::Result::Ok();
}

// first: (f64[:], f64[:]) -> f64[:], an array as long as the first, with whatever is in it. For two
// arrays of one length, as many bytes as half.
INVOKER_FUNCTION(first, (invoker::Context context, invoker::ArrayView<const double> a,
                         invoker::ArrayView<const double>)
                            ->invoker::ArrayView<double>) {
  return context.NewArray<double>(a.size());
}

// nap: waits for so many milliseconds, on a thread of its own.
INVOKER_FUNCTION(nap, (std::int64_t ms)->void) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}
INVOKER_CONCURRENCY(nap, 64);

// source: as many bytes as its input says (8 bytes, little-endian), with whatever is in them.
// Responses alone.
INVOKER_FUNCTION(source, input, output) {
  if (input.size() != 8) return invoker::Result::Error("the input is not a count of 8 bytes");
  std::size_t bytes = 0;
  for (std::size_t i = 8; i-- > 0;) bytes = bytes << 8 | input[i];
  if (!output.Resize(bytes)) return invoker::Result::TooSmall(bytes);
  return invoker::Result::Ok();
}
