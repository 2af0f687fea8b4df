// The secrets of sessions: each has its own, they cannot be guessed, and no log has them.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/hostile/attacker.h"
#include "tests/hostile/raw_session.h"
#include "tests/integration/server_process.h"

namespace invoker::hostile {
namespace {

class SecretsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ServerProcessOptions options;
    options.provider = GetParam();
    options.more = {"--data-auth=full", "--lease-cores=0"};
    auto server = ServerProcess::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    if (server_ != nullptr) {
      EXPECT_EQ(server_->Stop(), 0);
    }
  }

  std::unique_ptr<RawSession> Open() {
    auto session = RawSession::Open(server_->address(), GetParam());
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  std::unique_ptr<ServerProcess> server_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, SecretsTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return info.param[0] == 's' ? "Shm" : "Tcp";
                         });

// Every way in which a number or bytes may have been printed.
std::vector<std::string> Spellings(uint64_t number) {
  return {absl::StrCat(number), absl::StrCat(absl::Hex(number))};
}
std::vector<std::string> Spellings(const DataKey& key) {
  const std::string bytes(reinterpret_cast<const char*>(key.data()), key.size());
  return {bytes, absl::BytesToHexString(bytes), absl::Base64Escape(bytes), absl::CEscape(bytes)};
}

TEST_P(SecretsTest, EverySessionHasItsOwnAndNoLogHasThem) {
  std::vector<std::unique_ptr<RawSession>> sessions;
  std::set<DataKey> keys;
  std::set<uint64_t> memory_keys;
  std::vector<std::string> spellings;
  const auto add = [&spellings](const std::vector<std::string>& more) {
    spellings.insert(spellings.end(), more.begin(), more.end());
  };
  constexpr size_t kSessions = 8;
  for (size_t i = 0; i < kSessions; ++i) {
    sessions.push_back(Open());
    ASSERT_NE(sessions.back(), nullptr);
    const bootstrap::OpenSessionReply& reply = sessions.back()->reply();
    ASSERT_EQ(reply.data_auth, DataAuth::kFull);
    keys.insert({reply.data_keys.request, reply.data_keys.response});
    memory_keys.insert({reply.request_window.key, sessions.back()->request().response_window.key});
    add(Spellings(reply.data_keys.request));
    add(Spellings(reply.data_keys.response));
    add(Spellings(reply.request_window.key));
    add(Spellings(sessions.back()->request().response_window.key));
    add(Spellings(sessions.back()->lease()));
    const absl::StatusOr<std::string> text =
        sessions.back()->Run(sessions.back()->FunctionId("test.echo"), "hello", absl::Seconds(60));
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, "hello");
  }
  EXPECT_EQ(keys.size(), 2 * kSessions);
  // Ours to choose on these fabrics: 64 random bits, so that half of them have the highest one and
  // no two are near each other.
  EXPECT_EQ(memory_keys.size(), 2 * kSessions);
  uint64_t all_or = 0;
  uint64_t previous = 0;
  for (const uint64_t key : memory_keys) {
    all_or |= key;
    EXPECT_GT(key - previous, uint64_t{1} << 20);
    previous = key;
  }
  EXPECT_NE(all_or >> 48, 0u);

  // Something for the log: a session that is closed, and a server that stops.
  sessions.clear();
  EXPECT_EQ(server_->Stop(), 0);
  const std::string log = absl::StrCat(server_->log(), server_->ready().dump());
  server_.reset();
  EXPECT_TRUE(absl::StrContains(log, "stopped; calls run: ")) << log;
  const std::string lower = absl::AsciiStrToLower(log);
  for (const std::string& spelling : spellings) {
    EXPECT_FALSE(absl::StrContains(log, spelling) || absl::StrContains(lower, spelling)) << log;
  }
}

// What comes from nobody is to be seen, by its reason, from the command line.
TEST_P(SecretsTest, DropsAreShownByReason) {
  const std::unique_ptr<RawSession> session = Open();
  ASSERT_NE(session, nullptr);
  Fates fates;
  auto attacker = Attacker::Open(GetParam(), session->reply().endpoint_address, &fates);
  ASSERT_TRUE(attacker.ok()) << attacker.status();
  (*attacker)->Ring(0xffffffff);
  (*attacker)->Ring(
      Immediate{MessageKind::kRequest, session->reply().request_session, 77}.Encode());
  const std::string nonsense(100, 'n');
  (*attacker)->Send({reinterpret_cast<const std::byte*>(nonsense.data()), nonsense.size()});
  (*attacker)->Settle();
  const std::vector<std::string> wanted = {"unknown_session", "not_a_header", "stray_message"};
  nlohmann::json dropped;
  bool all = false;
  // Each asks anew; the server may have been busy with something else.
  for (int tries = 0; tries < 1000 && !all; ++tries) {
    const Finished done = RunToEnd(
        {.command = {"tools/invoker", "drops", "--json", "--server=" + server_->address()}});
    ASSERT_EQ(done.exit_code, 0) << done.errors;
    dropped = nlohmann::json::parse(done.output)["dropped"];
    all = true;
    for (const std::string& reason : wanted) all &= dropped[reason] == 1;
  }
  EXPECT_TRUE(all) << dropped;
  const Finished table =
      RunToEnd({.command = {"tools/invoker", "drops", "--server=" + server_->address()}});
  EXPECT_EQ(table.exit_code, 0) << table.errors;
  EXPECT_TRUE(absl::StrContains(table.output, "stray_message      1\n")) << table.output;
  EXPECT_TRUE(absl::StrContains(table.output, "bad_tag            0\n")) << table.output;
}

}  // namespace
}  // namespace invoker::hostile
