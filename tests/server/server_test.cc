// A worker in a program of one's own, over real fabrics.

#include "invoker/server.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "invoker/client.h"

namespace invoker {
namespace {

using ::testing::HasSubstr;

ServerOptions OverTcp() {
  ServerOptions options;
  options.provider = "tcp;ofi_rxm";
  options.peer_timeout = absl::Seconds(20);  // beside other tests
  return options;
}

Result Reverse(Input input, Output& output) {
  if (!output.Resize(input.size())) return Result::TooSmall(input.size());
  std::reverse_copy(input.begin(), input.end(), output.data());
  return Result::Ok();
}

absl::StatusOr<std::string> Call(Client* client, absl::string_view name, absl::string_view input) {
  absl::StatusOr<RemoteFunction> function = client->Function(name);
  if (!function.ok()) return function.status();
  absl::StatusOr<Response> response = client->Invoke(*function, input);
  if (!response.ok()) return response.status();
  return std::string(response->text());
}

TEST(ServerTest, RunsCallablesWithTheirState) {
  auto prefix = std::make_shared<std::string>("worker: ");
  const std::weak_ptr<std::string> state = prefix;
  {
    Server server(OverTcp());
    server.Register("reverse", Reverse, "the input's bytes in the opposite order");
    server.Register("greet", [prefix = std::move(prefix)](Input input, Output& output) {
      output.Append(*prefix);
      output.Append(input.text());
      return Result::Ok();
    });
    ASSERT_TRUE(server.Start().ok());
    EXPECT_THAT(server.providers(), testing::ElementsAre("tcp;ofi_rxm"));
    auto client = Client::Connect(server.address());
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_EQ(Call(client->get(), "reverse", "abc").value(), "cba");
    EXPECT_EQ(Call(client->get(), "greet", "hello").value(), "worker: hello");
    EXPECT_EQ(server.CallsRun(), 2u);
    server.Stop();
    EXPECT_EQ(server.CallsRun(), 2u);
    EXPECT_FALSE(Call(client->get(), "reverse", "abc").ok());
    EXPECT_FALSE(state.expired());
  }
  EXPECT_TRUE(state.expired());
}

TEST(ServerTest, AnExceptionIsTheFailureOfItsCall) {
  Server server(OverTcp());
  server.Register("throw", [](Input, Output&) -> Result { throw std::runtime_error("no toner"); });
  ASSERT_TRUE(server.Start().ok());
  auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok()) << client.status();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Call(client->get(), "throw", "").status().message(), HasSubstr("no toner"));
  }
}

TEST(ServerTest, ADrainingServerRefusesCallsAndSessions) {
  Server server(OverTcp());
  server.Register("reverse", Reverse);
  ASSERT_TRUE(server.Start().ok());
  auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(Call(client->get(), "reverse", "abc").ok());
  server.Drain();
  EXPECT_THAT(Client::Connect(server.address()).status().message(), HasSubstr("stopping"));
  EXPECT_EQ(Call(client->get(), "reverse", "abc").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.CallsRun(), 1u);
}

// None is lost in a window that nobody looks at any more.
TEST(ServerTest, CallsOfTheLastMomentAreAnsweredOrRefused) {
  for (const char* provider : {"tcp;ofi_rxm", "shm"}) {
    for (int round = 0; round < 5; ++round) {
      ServerOptions options = OverTcp();
      options.provider = provider;
      Server server(options);
      server.Register("reverse", Reverse);
      ASSERT_TRUE(server.Start().ok());
      constexpr int kClients = 3;
      std::vector<std::unique_ptr<Client>> clients;
      for (int i = 0; i < kClients; ++i) {
        auto client = Client::Connect(server.address());
        ASSERT_TRUE(client.ok()) << client.status();
        clients.push_back(*std::move(client));
      }
      absl::BlockingCounter called(kClients);
      std::vector<std::thread> callers;
      for (const std::unique_ptr<Client>& client : clients) {
        callers.emplace_back([&called, client = client.get()] {
          absl::Status status;
          for (int i = 0; status.ok(); ++i) {
            status = Call(client, "reverse", "abc").status();
            if (i == 20) called.DecrementCount();
          }
          EXPECT_TRUE(absl::IsUnavailable(status)) << status;
          const CallFate fate = GetCallFate(status);
          EXPECT_TRUE(fate == CallFate::kNotSent || fate == CallFate::kNotExecuted) << status;
        });
      }
      called.Wait();
      server.Stop();
      for (std::thread& caller : callers) caller.join();
    }
  }
}

TEST(ServerTest, StartsOnce) {
  Server server(OverTcp());
  EXPECT_EQ(server.CallsRun(), 0u);
  EXPECT_THAT(server.providers(), testing::IsEmpty());
  EXPECT_EQ(server.metrics_address(), "");
  ASSERT_TRUE(server.Start().ok());
  EXPECT_EQ(server.Start().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ServerTest, StopsWithoutAStart) {
  Server server(OverTcp());
  server.Drain();
  server.Stop();
}

TEST(ServerTest, MistakesAreNamed) {
  const auto start = [](ServerOptions options, absl::string_view function) {
    Server server(std::move(options));
    server.Register("reverse", Reverse);
    server.Register(function, Reverse);
    return std::string(server.Start().message());
  };
  EXPECT_THAT(start(OverTcp(), "a name"), HasSubstr("a name"));
  EXPECT_THAT(start(OverTcp(), "reverse"), HasSubstr("reverse"));
  ServerOptions options = OverTcp();
  options.listen = "nowhere";
  EXPECT_THAT(start(options, "other"), HasSubstr("nowhere"));
  options = OverTcp();
  options.peer_timeout = absl::Milliseconds(1);
  EXPECT_THAT(start(options, "other"), HasSubstr("peer_timeout is 1ms"));
  options = OverTcp();
  options.provider = "carrier_pigeon";
  EXPECT_THAT(start(options, "other"), HasSubstr("carrier_pigeon"));
  options = OverTcp();
  options.token_file = "/nonexistent/tokens";
  EXPECT_THAT(start(options, "other"), HasSubstr("/nonexistent/tokens"));
  options = OverTcp();
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(start(options, "other"), HasSubstr("plaintext"));
}

}  // namespace
}  // namespace invoker
