// Typed functions, called with values over real fabrics.

#include <gmock/gmock.h>

#include <atomic>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "invoker/client.h"
#include "invoker/client_group.h"
#include "invoker/server.h"
#include "tests/server/shop.pb.h"

namespace typed {

struct Particle {
  double position[3];
  float mass;
  int32_t id;
};
INVOKER_STRUCT(Particle, position, mass, id);

}  // namespace typed

namespace invoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using typed::Particle;

double Dot(ArrayView<const double> a, ArrayView<const double> b) {
  if (a.size() != b.size()) throw std::invalid_argument("dot: the arrays differ in length");
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

class TypedTest : public testing::TestWithParam<const char*> {
 protected:
  TypedTest() {
    ServerOptions options;
    options.provider = GetParam();
    options.peer_timeout = absl::Seconds(20);  // beside other tests
    server_ = std::make_unique<Server>(options);
    server_->Register("dot", &Dot, "the scalar product");
    server_->Register("reverse", [](Input input, Output& output) {
      output.Append(std::string(input.begin(), input.end()));
      return Result::Ok();
    });
  }

  Client& Start() {
    const absl::Status started = server_->Start();
    EXPECT_TRUE(started.ok()) << started;
    auto client = Client::Connect(server_->address());
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    return *client_;
  }
  template <typename Signature>
  auto Find(absl::string_view name) {
    auto function = client_->Function<Signature>(name);
    EXPECT_TRUE(function.ok()) << function.status();
    return *std::move(function);
  }

  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(Providers, TypedTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return info.param[0] == 's' ? "Shm" : "Tcp";
                         });

using DotSignature = double(ArrayView<const double>, ArrayView<const double>);

TEST_P(TypedTest, ArraysOfAnySizeArrive) {
  Start();
  const auto dot = Find<DotSignature>("dot");
  EXPECT_EQ(dot.Signature(), "(f64[:], f64[:]) -> f64");
  // On the stack, in the request window, and in memory that is registered for the call.
  for (const size_t size : {0, 3, 1000, 300000}) {
    std::vector<double> a(size);
    std::iota(a.begin(), a.end(), 1);
    const std::vector<double> b(size, 2);
    const absl::StatusOr<double> product = dot(a, b);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(*product, static_cast<double>(size) * static_cast<double>(size + 1));
  }
  const absl::StatusOr<double> failed = dot(std::vector<double>(2), std::vector<double>(3));
  EXPECT_THAT(failed.status().message(), HasSubstr("dot: the arrays differ in length"));
}

TEST_P(TypedTest, ASpanIsAnArrayOfOneDimension) {
  Start();
  const auto dot = Find<double(absl::Span<const double>, std::vector<double>)>("dot");
  const std::vector<double> a = {1, 2, 3};
  EXPECT_EQ(dot(a, a).value(), 14);
}

TEST_P(TypedTest, AResultInPlaceIsAViewOfTheResponse) {
  server_->Register("outer",
                    [](Context& context, ArrayView<const double> a, ArrayView<const double> b) {
                      ArrayView<double, 2> product = context.NewArray<double>(a.size(), b.size());
                      for (size_t i = 0; i < a.size(); ++i) {
                        for (size_t j = 0; j < b.size(); ++j) product(i, j) = a[i] * b[j];
                      }
                      return product;
                    });
  Start();
  using Signature = ArrayView<double, 2>(ArrayView<const double>, ArrayView<const double>);
  const auto outer = Find<Signature>("outer");
  const std::vector<double> a = {1, 2};
  const std::vector<double> b = {10, 20, 30};
  const auto product = outer(a, b);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_THAT((*product)->shape(), ElementsAre(2, 3));
  EXPECT_EQ((**product)(1, 2), 60);
  // The caller has to make room for an answer that is larger, as with functions of bytes.
  const std::vector<double> many(100, 1);
  const auto refused = outer(many, many);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  CallOptions options;
  options.response_capacity = 100000;
  const auto large = outer.With(options)(many, many);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ((*large)->size(), 10000u);
}

TEST_P(TypedTest, AnArrayThatIsTooLongForAnyRoomIsRefused) {
  server_->Register("make", [](Context& context, int64_t rows, int64_t columns) {
    ArrayView<double, 2> made = context.NewArray<double>(rows, columns);
    for (double& element : made) element = 1;
    return made;
  });
  Start();
  const auto make = Find<ArrayView<double, 2>(int64_t, int64_t)>("make");
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const int64_t rows : {int64_t{-1}, most, most / 8, int64_t{1} << 61, int64_t{1} << 32}) {
    for (const int64_t columns : {int64_t{1}, int64_t{2}, int64_t{1} << 29, most, int64_t{-8}}) {
      const absl::Status refused = make(rows, columns).status();
      EXPECT_TRUE(absl::IsResourceExhausted(refused)) << rows << ", " << columns << ": " << refused;
    }
  }
  const auto none = make(0, most);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ((*none)->size(), 0u);
}

TEST_P(TypedTest, EveryTypeTravels) {
  server_->Register("mix", [](const std::string& text, std::vector<std::string> list,
                              std::optional<int32_t> number, bool flag, std::vector<Particle> all,
                              Particle one, const shop::Order& order) {
    one.id += static_cast<int32_t>(all.size()) + number.value_or(100);
    list.push_back(text + (flag ? "!" : "."));
    all.push_back(one);
    shop::Order larger = order;
    larger.set_item(order.item() + " and more");
    return std::tuple(list, all, larger, std::optional<double>());
  });
  Start();
  using Answer = std::tuple<std::vector<std::string>, std::vector<Particle>, shop::Order,
                            std::optional<double>>;
  const auto mix = Find<Answer(std::string, std::vector<std::string>, std::optional<int32_t>, bool,
                               std::vector<Particle>, Particle, shop::Order)>("mix");
  shop::Order order;
  order.set_item("tea");
  const Particle particle = {{1, 2, 3}, 0.5f, 7};
  for (const bool flag : {true, false}) {
    const auto answer = mix("hi", {"a", "bc"}, flag ? std::optional<int32_t>(3) : std::nullopt,
                            flag, {particle, particle}, particle, order);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_THAT(std::get<0>(*answer), ElementsAre("a", "bc", flag ? "hi!" : "hi."));
    ASSERT_EQ(std::get<1>(*answer).size(), 3u);
    EXPECT_EQ(std::get<1>(*answer)[2].id, flag ? 12 : 109);
    EXPECT_EQ(std::get<1>(*answer)[2].position[2], 3);
    EXPECT_EQ(std::get<2>(*answer).item(), "tea and more");
    EXPECT_EQ(std::get<3>(*answer), std::nullopt);
  }
}

// The arrays of a result may lie in the response already, in an order of their own.
TEST_P(TypedTest, AResultWhosePartsLieElsewhereIsPutTogether) {
  server_->Register("swap",
                    [](Context& context, ArrayView<const int64_t> a, std::string_view text) {
                      ArrayView<int64_t> first = context.NewArray<int64_t>(a.size());
                      ArrayView<int64_t> second = context.NewArray<int64_t>(a.size());
                      for (size_t i = 0; i < a.size(); ++i) {
                        first[i] = a[i];
                        second[i] = -a[i];
                      }
                      return std::tuple(second, first, a, text);
                    });
  Start();
  using Ints = ArrayView<const int64_t>;
  const auto swap =
      Find<std::tuple<Ints, Ints, Ints, std::string_view>(Ints, std::string_view)>("swap");
  const std::vector<int64_t> numbers = {1, 2, 3};
  const auto answer = swap(numbers, "text");
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto& [second, first, same, text] = answer->value();
  EXPECT_THAT(second, ElementsAre(-1, -2, -3));
  EXPECT_THAT(first, ElementsAre(1, 2, 3));
  EXPECT_THAT(same, ElementsAre(1, 2, 3));
  EXPECT_EQ(text, "text");
}

TEST_P(TypedTest, AFunctionOfOtherTypesIsRefusedBeforeItIsCalled) {
  Start();
  const auto other = client_->Function<double(ArrayView<const float>, int32_t)>("dot");
  EXPECT_TRUE(absl::IsInvalidArgument(other.status()));
  EXPECT_THAT(other.status().message(), HasSubstr("is (f64[:], f64[:]) -> f64"));
  EXPECT_THAT(other.status().message(), HasSubstr("for (f32[:], i32) -> f64"));
  const auto bytes = client_->Function<double(double)>("reverse");
  EXPECT_THAT(bytes.status().message(), HasSubstr("takes and returns bytes"));
  EXPECT_TRUE(absl::IsNotFound(client_->Function<double(double)>("nothing").status()));
  EXPECT_EQ(server_->CallsRun(), 0u);
}

TEST_P(TypedTest, BytesThatAreNoArgumentsAreRefusedAndTheSessionGoesOn) {
  server_->Register("order", [](const shop::Order& order) { return order.item(); });
  server_->Register("flags", [](ArrayView<const bool> flags) { return flags.size() == 0; });
  Start();
  const RemoteFunction bytes = *client_->Function("dot");
  EXPECT_EQ(bytes.signature(), "(f64[:], f64[:]) -> f64");
  const auto message = [&](std::string request) {
    return std::string(client_->Invoke(bytes, request).status().message());
  };
  EXPECT_THAT(message(""), HasSubstr("argument 1 is no f64[:]"));
  EXPECT_THAT(message(std::string(8, '\xff')), HasSubstr("argument 1 is no f64[:]"));
  EXPECT_THAT(message(std::string(8, '\0')), HasSubstr("argument 2 is no f64[:]"));
  EXPECT_THAT(message(std::string(24, '\0')), HasSubstr("8 bytes more than the arguments"));
  const RemoteFunction order = *client_->Function("order");
  const std::string cut_short("\3\0\0\0\0\0\0\0\x0a\x05t\0\0\0\0\0", 16);
  EXPECT_THAT(std::string(client_->Invoke(order, cut_short).status().message()),
              HasSubstr("argument 1 is no protobuf[shop.Order], or is cut short"));
  const RemoteFunction flags = *client_->Function("flags");
  const std::string no_bool("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16);
  EXPECT_THAT(std::string(client_->Invoke(flags, no_bool).status().message()),
              HasSubstr("argument 1 is no bool[:]"));
  const std::vector<double> a = {3};
  EXPECT_EQ(Find<DotSignature>("dot")(a, a).value(), 9);
}

TEST_P(TypedTest, ACallMayBeStartedAndWaitedForLater) {
  Start();
  const auto dot = Find<DotSignature>("dot");
  std::vector<TypedFuture<double, Future>> futures;
  // Copied into the request window, and put together there.
  for (const size_t size : {200, 2000}) {
    futures.clear();
    for (int i = 0; i < 20; ++i) {
      futures.push_back(dot.Start(std::vector<double>(size, i), std::vector<double>(size, 1)));
    }
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(futures[i].Get().value(), static_cast<double>(size * i));
    }
  }
  auto large = dot.Start(std::vector<double>(300000, 1), std::vector<double>(300000, 1));
  EXPECT_EQ(large.Get().value(), 300000);
}

TEST_P(TypedTest, NothingIsAResultToo) {
  std::atomic<int> seen{0};
  server_->Register("note", [&seen](int32_t number) { seen = number; });
  server_->Register("fail", []() -> void { throw CallError(-4711, "not today"); });
  Start();
  EXPECT_TRUE(Find<void(int32_t)>("note")(7).ok());
  EXPECT_EQ(seen.load(), 7);
  const absl::Status failed = Find<void()>("fail")();
  EXPECT_THAT(failed.message(), HasSubstr("not today"));
  EXPECT_THAT(failed.message(), HasSubstr("-4711"));
}

TEST_P(TypedTest, AGroupCallsTypedFunctions) {
  Start();
  auto group = ClientGroup::Connect(server_->address());
  ASSERT_TRUE(group.ok()) << group.status();
  const auto dot = (*group)->Function<DotSignature>("dot");
  ASSERT_TRUE(dot.ok()) << dot.status();
  for (const size_t size : {10, 1000, 300000}) {
    const std::vector<double> ones(size, 1);
    EXPECT_EQ((*dot)(ones, ones).value(), static_cast<double>(size));
    EXPECT_EQ(dot->Start(ones, ones).Get().value(), static_cast<double>(size));
  }
  EXPECT_TRUE(absl::IsInvalidArgument((*group)->Function<double(double)>("dot").status()));
}

TEST_P(TypedTest, AFunctionLearnsAboutItsCall) {
  server_->Register("facts", [](Context& context) {
    const auto left = context.remaining();
    return std::tuple(context.tenant(), context.call_id(), left.has_value(),
                      left.has_value() && left->count() > 0 && left < std::chrono::minutes(1),
                      context.cancelled());
  });
  Start();
  using Facts = std::tuple<std::string, std::string, bool, bool, bool>;
  const auto facts = Find<Facts()>("facts");
  const auto first = facts();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(std::get<0>(*first), "");
  EXPECT_FALSE(std::get<2>(*first));
  CallOptions options;
  options.timeout = absl::Seconds(30);
  const auto second = facts.With(options)();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(std::get<2>(*second));
  EXPECT_TRUE(std::get<3>(*second));
  EXPECT_FALSE(std::get<4>(*second));
  EXPECT_NE(std::get<1>(*second), std::get<1>(*first));
  EXPECT_FALSE(std::get<1>(*second).empty());
}

}  // namespace
}  // namespace invoker
