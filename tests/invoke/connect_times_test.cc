// Where the time of connecting goes, as ClientOptions::times is told.

#include "src/invoke/connect/connect_times.h"

#include <memory>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "invoker/client.h"
#include "src/transport/reactor/reactor.h"
#include "tests/invoke/served_client.h"

namespace invoker {
namespace {

class ConnectTimesTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Providers, ConnectTimesTest, testing::Values("tcp;ofi_rxm", "shm"),
                         NameOfProvider);

absl::Duration Sum(const ConnectTimes& times) {
  return times.worker_info + times.discovery + times.lease + times.endpoint + times.session +
         times.probe;
}

TEST_P(ConnectTimesTest, EveryStepIsCountedAndNoneTwice) {
  ServedWorker served(GetParam());
  ConnectTimes times;
  ClientOptions options;
  options.times = &times;
  const int64_t began_ns = transport::MonotonicNs();
  std::unique_ptr<Client> client = served.Connect(options);
  const absl::Duration all = absl::Nanoseconds(transport::MonotonicNs() - began_ns);
  ASSERT_NE(client, nullptr);
  for (const absl::Duration step : {times.worker_info, times.discovery, times.lease, times.endpoint,
                                    times.session, times.probe}) {
    EXPECT_GT(step, absl::ZeroDuration());
  }
  EXPECT_LE(Sum(times), all);
  // Nothing is added once Connect has returned.
  const absl::Duration before = Sum(times);
  client.reset();
  EXPECT_EQ(Sum(times), before);
}

TEST_P(ConnectTimesTest, FailureLeavesTheStepsThatWereNotReachedAtZero) {
  ServedWorker served(GetParam());
  ConnectTimes times;
  ClientOptions options;
  options.times = &times;
  options.provider = "carrier-pigeon";
  EXPECT_FALSE(Client::Connect(served.server->listen_address(), options).ok());
  EXPECT_GT(times.worker_info, absl::ZeroDuration());
  EXPECT_EQ(Sum(times), times.worker_info);
}

}  // namespace
}  // namespace invoker
