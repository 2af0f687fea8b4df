// Data that stays in the executors of a lease.

#include <gmock/gmock.h>
#include <pwd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invoker/client_group.h"
#include "invoker/lease.h"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

using ::testing::HasSubstr;

using Array = ArrayView<const double>;
using Sum = std::tuple<double, uint64_t>(Reference<Array>);

constexpr uint64_t kMemory = 256 << 20;

std::vector<double> CountTo(size_t size) {
  std::vector<double> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

double SumTo(size_t size) { return static_cast<double>(size) * static_cast<double>(size + 1) / 2; }

class PutTest : public ServerTest, public testing::WithParamInterface<const char*> {
 protected:
  ServerProcess* Start() {
    const passwd* user = getpwuid(geteuid());
    ServerProcessOptions options;
    options.provider = GetParam();
    options.functions = {"tests/lease/put_functions.so"};
    options.more = {"--lease-cores=4", "--prestart=2",
                    absl::StrCat("--executor-user=", user != nullptr ? user->pw_name : "")};
    return StartServer(options);
  }
  static LeaseOptions Executors(uint32_t executors) {
    LeaseOptions options;
    options.executors = executors;
    options.memory_bytes = kMemory;
    options.client.hot_timeout = kClientHotTimeout;
    options.client.peer_timeout = absl::Seconds(5);
    return options;
  }
  std::unique_ptr<Lease> Acquire(uint32_t executors) {
    if (server_ == nullptr) server_ = Start();
    if (server_ == nullptr) return nullptr;
    auto lease = Lease::Acquire(server_->address(), Executors(executors));
    EXPECT_TRUE(lease.ok()) << lease.status();
    return lease.ok() ? *std::move(lease) : nullptr;
  }
  template <typename Signature, typename Caller>
  static auto Find(Caller& caller, absl::string_view name) {
    auto function = caller.template Function<Signature>(name);
    EXPECT_TRUE(function.ok()) << function.status();
    return *std::move(function);
  }

  ServerProcess* server_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Providers, PutTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const auto& info) {
                           return std::string(info.param[0] == 's' ? "Shm" : "Tcp");
                         });

TEST_P(PutTest, EveryExecutorHasTheArrayAndItIsSentOnce) {
  const std::unique_ptr<Lease> lease = Acquire(2);
  ASSERT_NE(lease, nullptr);
  // Nothing, what goes through the window, and what goes through registered memory.
  for (const size_t size : {0, 1000, 1000000}) {
    const std::vector<double> numbers = CountTo(size);
    const uint64_t before = lease->Usage()->bytes_in;
    const auto reference = lease->Put(Array(numbers));
    ASSERT_TRUE(reference.ok()) << reference.status();
    EXPECT_EQ(reference->type(), "f64[:]");
    EXPECT_EQ(reference->bytes(), 8 + 8 * size);
    for (size_t i = 0; i < lease->size(); ++i) {
      const auto sum = Find<Sum>(lease->executor(i), "put.sum");
      std::optional<uint64_t> place;
      for (int call = 0; call < 20; ++call) {
        const auto answer = sum(*reference);
        ASSERT_TRUE(answer.ok()) << answer.status();
        EXPECT_EQ(std::get<0>(*answer), SumTo(size));
        // No call has a copy.
        EXPECT_EQ(std::get<1>(*answer), place.value_or(std::get<1>(*answer)));
        place = std::get<1>(*answer);
      }
    }
    const absl::StatusOr<ResourceUsage> usage = lease->Usage();
    ASSERT_TRUE(usage.ok()) << usage.status();
    // An executor counts what it has run a little later.
    EXPECT_GE(usage->bytes_in - before, 2 * 8 * size);
    EXPECT_LE(usage->bytes_in - before, 2 * 8 * size + 4000);
  }
  const absl::StatusOr<LeaseEnd> bill = lease->Release();
  ASSERT_TRUE(bill.ok()) << bill.status();
  EXPECT_EQ(bill->usage.calls, 3 * 2 * 20u);
}

TEST_P(PutTest, AReferenceStandsBesideOtherArguments) {
  const std::unique_ptr<Lease> lease = Acquire(1);
  ASSERT_NE(lease, nullptr);
  const std::vector<double> numbers = CountTo(100);
  const auto reference = lease->Put(Array(numbers));
  ASSERT_TRUE(reference.ok()) << reference.status();
  Client& executor = lease->executor(0);
  const auto last = Find<double(Array, Reference<Array>)>(executor, "put.dot");
  EXPECT_EQ(last(std::vector<double>(100, 1), *reference).value(), SumTo(100));
  const auto both = Find<double(Reference<Array>, Reference<Array>)>(executor, "put.dot");
  EXPECT_EQ(both(*reference, *reference).value(), 338350);
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  using Matrix = ArrayView<const float, 2>;
  const auto matrix = lease->Put(Matrix(floats.data(), {2, 3}));
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(Find<float(Reference<Matrix>)>(executor, "put.corner")(*matrix).value(), 6);
}

TEST_P(PutTest, AReferenceToNothingFailsTheCallAndNotTheSession) {
  const std::unique_ptr<Lease> lease = Acquire(1);
  const std::unique_ptr<Lease> other = Acquire(1);
  ASSERT_NE(lease, nullptr);
  ASSERT_NE(other, nullptr);
  const std::vector<double> numbers = CountTo(10);
  auto mine = lease->Put(Array(numbers));
  const auto theirs = other->Put(Array(numbers));
  ASSERT_TRUE(mine.ok() && theirs.ok()) << mine.status() << theirs.status();
  const auto sum = Find<Sum>(lease->executor(0), "put.sum");
  EXPECT_TRUE(sum(*mine).ok());
  const absl::Status of_another = sum(*theirs).status();
  EXPECT_TRUE(GetFunctionCode(of_another).has_value()) << of_another;
  EXPECT_THAT(of_another.message(), HasSubstr("argument 1: its reference is to no data of this"));
  const Reference<Array> copy = *mine;
  mine->Free();
  EXPECT_TRUE(copy.freed());
  EXPECT_THAT(sum(copy).status().message(), HasSubstr("it has been freed"));
  // The caller says what the reference is to, and may be wrong.
  const std::vector<float> floats = {1, 2};
  const auto untyped = lease->Put(ArrayView<const float>(floats));
  ASSERT_TRUE(untyped.ok()) << untyped.status();
  EXPECT_THAT(sum(Reference<Array>(*untyped)).status().message(),
              HasSubstr("its reference is to data of type f32[:], and it is f64[:]"));
  const auto again = lease->Put(Array(numbers));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(std::get<0>(sum(*again).value()), SumTo(10));
}

TEST_P(PutTest, MoreThanTheMemoryIsRefusedAndWhatIsFreedCanBeUsedAgain) {
  const std::unique_ptr<Lease> lease = Acquire(1);
  ASSERT_NE(lease, nullptr);
  const std::vector<double> large(kMemory / 2 / 8);
  const auto too_much = lease->Put(Array(std::vector<double>(kMemory / 8)));
  EXPECT_TRUE(absl::IsResourceExhausted(too_much.status())) << too_much.status();
  EXPECT_THAT(too_much.status().message(), HasSubstr("into executor 0 at"));
  auto first = lease->Put(Array(large));
  ASSERT_TRUE(first.ok()) << first.status();
  // What is stored is no room for calls, nor for more data.
  EXPECT_TRUE(absl::IsResourceExhausted(lease->Put(Array(large)).status()));
  const auto sum = Find<std::tuple<double, uint64_t>(Array)>(lease->executor(0), "put.sum");
  EXPECT_TRUE(absl::IsResourceExhausted(sum(large).status()));
  EXPECT_TRUE(sum(std::vector<double>(100000)).ok());
  for (int round = 0; round < 3; ++round) {
    first->Free();
    first = lease->Put(Array(large));
    ASSERT_TRUE(first.ok()) << first.status();
  }
  first->Free();
  const auto answer = sum(large);
  EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(lease->status().ok()) << lease->status();
}

TEST_P(PutTest, ACallKeepsItsDataUntilItIsAnswered) {
  const std::unique_ptr<Lease> lease = Acquire(1);
  ASSERT_NE(lease, nullptr);
  const std::vector<double> numbers = CountTo(100000);
  std::optional<Reference<Array>> reference = lease->Put(Array(numbers)).value();
  const auto hold = Find<double(Reference<Array>)>(lease->executor(0), "put.hold");
  const auto let_go = Find<bool()>(lease->executor(0), "put.let_go");
  const auto sum = Find<Sum>(lease->executor(0), "put.sum");
  auto future = hold.Start(*reference);
  // The call that has started counts as a copy.
  const Reference<Array> copy = *reference;
  reference.reset();
  EXPECT_TRUE(sum(copy).ok());
  // In the executor it has the data for itself.
  Reference<Array>(copy).Free();
  EXPECT_FALSE(sum(copy).ok());
  EXPECT_TRUE(let_go().value());
  EXPECT_EQ(future.Get().value(), SumTo(100000));
}

TEST_P(PutTest, AGroupPutsIntoEveryLease) {
  server_ = Start();
  ASSERT_NE(server_, nullptr);
  ServerProcess* const second = Start();
  ASSERT_NE(second, nullptr);
  const std::string servers = absl::StrCat(server_->address(), ",", second->address());
  auto group = ClientGroup::Acquire(servers, Executors(2));
  ASSERT_TRUE(group.ok()) << group.status();
  const std::vector<double> numbers = CountTo(100000);
  std::optional<Reference<Array>> reference = (*group)->Put(Array(numbers)).value();
  const auto sum = Find<Sum>(**group, "put.sum");
  using Started = decltype(sum.Start(*reference));
  std::vector<Started> all;
  for (int i = 0; i < 8; ++i) all.push_back(sum.Start(*reference));
  reference.reset();
  for (Started& each : all) EXPECT_EQ(std::get<0>(each.Get().value()), SumTo(100000));

  auto shared = ClientGroup::Connect(server_->address());
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_TRUE(absl::IsFailedPrecondition((*shared)->Put(Array(numbers)).status()));
}

// A thread that frees data may come to run them: the calls of all references share the sessions.
TEST_P(PutTest, CallbacksMayLetGoOfReferences) {
  const std::unique_ptr<Lease> lease = Acquire(2);
  ASSERT_NE(lease, nullptr);
  const std::vector<double> numbers = CountTo(10);
  absl::StatusOr<RemoteFunction> sum = lease->Function("put.sum");
  ASSERT_TRUE(sum.ok()) << sum.status();
  std::atomic<int> right{0};
  std::atomic<int> ended{0};
  const auto call = [&](Client& executor, const Reference<Array>& reference) {
    std::byte request[24];
    Value<Reference<Array>>::Write(reference, request);
    executor.InvokeAsync(*sum, Bytes(request), {},
                         [&, reference](const absl::StatusOr<Response>& response) {
                           right += response.ok() ? 1 : 0;
                           ++ended;
                         });
  };
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    const auto reference = lease->Put(Array(numbers));
    ASSERT_TRUE(reference.ok()) << reference.status();
    for (size_t i = 0; i < lease->size(); ++i) call(lease->executor(i), *reference);
    // This one is freed here, and meanwhile the callbacks free those of earlier rounds.
    ASSERT_TRUE(lease->Put(Array(numbers)).ok());
  }
  while (ended < 2 * kRounds) ASSERT_TRUE(lease->executor(0).Ping({}).ok());
  EXPECT_EQ(right, 2 * kRounds);
  EXPECT_TRUE(lease->status().ok()) << lease->status();
}

TEST_P(PutTest, AReferenceMayOutliveItsLease) {
  std::unique_ptr<Lease> lease = Acquire(1);
  ASSERT_NE(lease, nullptr);
  const std::vector<double> numbers = CountTo(10);
  Reference<Array> reference = lease->Put(Array(numbers)).value();
  Reference<Array> released = lease->Put(Array(numbers)).value();
  EXPECT_TRUE(lease->Release().ok());
  released.Free();
  EXPECT_EQ(GetCallFate(lease->Put(Array(numbers)).status()), CallFate::kNotSent);
  lease.reset();
  EXPECT_FALSE(reference.freed());
  reference.Free();
  EXPECT_TRUE(reference.freed());
}

}  // namespace
}  // namespace invoker
