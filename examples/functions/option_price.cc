// option_price: the value of a European call option by Monte Carlo, over a range of random paths.
//
// Input: an OptionPriceRequest as it lies in memory on x86-64 (five float64, two uint64,
// little-endian). Output: two float64, the sum of the paths' discounted payoffs and the sum of
// their squares. A path's random numbers follow from its number, so it makes no difference to the
// result who computes which range, and ranges add up.
//
// A library of its own, for clients to upload. `option_price_sums` is the same computation as a
// plain C function, for a program that wants to know what it takes without a worker.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "invoker/function.h"

extern "C" {

struct OptionPriceRequest {
  double spot;        // the share's price today
  double strike;      // what the option lets one buy it for
  double rate;        // riskless interest, a year, continuous
  double volatility;  // the share's price's, a year
  double years;       // until the option can be used
  std::uint64_t first_path;
  std::uint64_t paths;
};

void option_price_sums(const OptionPriceRequest* request, double* sums);
}

namespace {

// A path costs some 40 ns, so this is under a minute: a request cannot hold an executor for good.
constexpr std::uint64_t kMaxPaths = std::uint64_t{1} << 30;

// splitmix64's finalizer: neighbouring counters give unrelated bits.
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// In (0, 1), never 0, so that its logarithm is finite.
double Uniform(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

}  // namespace

void option_price_sums(const OptionPriceRequest* request, double* sums) {
  constexpr double kTwoPi = 6.283185307179586;
  const double variance = request->volatility * request->volatility * request->years;
  const double drift = request->rate * request->years - variance / 2;
  const double deviation = std::sqrt(variance);
  const double discount = std::exp(-request->rate * request->years);
  double sum = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < request->paths; ++i) {
    const std::uint64_t counter = 2 * (request->first_path + i);
    // Box and Muller: two uniform numbers make a normal one.
    const double normal = std::sqrt(-2 * std::log(Uniform(Mix(counter)))) *
                          std::cos(kTwoPi * Uniform(Mix(counter + 1)));
    const double price = request->spot * std::exp(drift + deviation * normal);
    const double payoff = discount * std::fmax(price - request->strike, 0);
    sum += payoff;
    squares += payoff * payoff;
  }
  sums[0] = sum;
  sums[1] = squares;
}

INVOKER_FUNCTION(option_price, input, output) {
  OptionPriceRequest request;
  if (input.size() != sizeof(request)) {
    return invoker::Result::Error("option_price: the input has " + std::to_string(input.size()) +
                                  " bytes, not " + std::to_string(sizeof(request)));
  }
  std::memcpy(&request, input.data(), sizeof(request));
  // Written so that a NaN is refused as well.
  if (!(request.spot > 0 && request.strike > 0 && request.volatility >= 0 && request.years >= 0)) {
    return invoker::Result::Error(
        "option_price: spot and strike must be positive, volatility and years not negative");
  }
  if (request.paths > kMaxPaths) {
    return invoker::Result::Error("option_price: more than " + std::to_string(kMaxPaths) +
                                  " paths; split them into several calls");
  }
  double sums[2];
  option_price_sums(&request, sums);
  output.Append(sums, sizeof(sums));
  return invoker::Result::Ok();
}
