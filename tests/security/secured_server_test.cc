// Real servers with TLS, tokens and a policy, and what their clients and the command line can do
// there; and that no secret shows anywhere.

#include <gmock/gmock.h>
#include <pwd.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "invoker/lease.h"
#include "src/base/sha256.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "tests/integration/fabric_test.h"
#include "tests/security/test_files.h"

namespace invoker {
namespace {
using security::IssuedFiles;
using security::TestAuthority;
using security::TestFiles;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kInvoker[] = "tools/invoker";
constexpr char kAlice[] = "alices-token-0123456789";
constexpr char kBob[] = "bobs-token-0123456789ab";
constexpr char kCarol[] = "carols-token-0123456789";

// For a command's environment: what it could be told there of servers and secrets is not.
const std::vector<std::string> kNothingOfInvoker = {
    "INVOKER_SERVER",          "INVOKER_TLS_CA",     "INVOKER_TLS_CERT", "INVOKER_TLS_KEY",
    "INVOKER_TLS_SERVER_NAME", "INVOKER_TOKEN_FILE", "INVOKER_PLAINTEXT"};

std::string Tenant(const std::string& name, const std::string& token, const std::string& more) {
  return absl::StrCat("tenant {\n  name: \"", name, "\"\n  token_sha256: \"",
                      HashOf(token)->ToHex(), "\"\n", more, "}\n");
}

std::string PolicyText() {
  return Tenant("alice", kAlice,
                "  function: \"*\"\n  upload: \"all\"\n  sees_others_usage: true\n"
                "  contributes_usage: true\n") +
         Tenant("bob", kBob, "  function: \"test.echo\"\n  max_cores: 1\n") +
         Tenant("carol", kCarol, "  upload: \"all\"\n");
}

std::string FileOf(pid_t process, const std::string& name) {
  std::ifstream file(absl::StrCat("/proc/", process, "/", name), std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

class SecuredServerTest : public ServerTest {
 protected:
  ServerProcess* Start(std::vector<std::string> more = {}) {
    const IssuedFiles issued = authority_.Issue("server");
    server_key_ = issued.key;
    ServerProcessOptions options;
    options.provider = "tcp;ofi_rxm";
    options.functions = {kTestFunctions};
    options.more = {"--tls-cert=" + issued.certificate, "--tls-key=" + issued.key,
                    "--policy=" + files_.Write("policy", PolicyText(), 0644)};
    options.more.insert(options.more.end(), more.begin(), more.end());
    return StartServer(options);
  }
  static std::vector<std::string> Leasing() {
    const passwd* user = getpwuid(geteuid());
    return {"--lease-cores=4", "--allow-upload=all",
            absl::StrCat("--executor-user=", user != nullptr ? user->pw_name : "")};
  }
  ClientCredentials As(const std::string& token) {
    ClientCredentials credentials;
    credentials.tls_ca = authority_.file();
    credentials.token_file = files_.Write(absl::StrCat(token.substr(0, 3), ".token"), token);
    return credentials;
  }
  ClientOptions OptionsAs(const std::string& token) {
    ClientOptions options;
    options.peer_timeout = absl::Seconds(5);
    options.credentials = As(token);
    options.hot_timeout = kClientHotTimeout;
    return options;
  }
  LeaseOptions LeaseAs(const std::string& token, uint32_t executors) {
    LeaseOptions options;
    options.executors = executors;
    options.client = OptionsAs(token);
    return options;
  }
  // What the options say comes from the environment instead.
  std::vector<std::string> EnvironmentAs(const std::string& token, const ServerProcess* server) {
    const ClientCredentials credentials = As(token);
    return {"INVOKER_SERVER=" + server->address(), "INVOKER_TLS_CA=" + credentials.tls_ca,
            "INVOKER_TOKEN_FILE=" + credentials.token_file};
  }
  Finished Run(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
    arguments.insert(arguments.begin(), kInvoker);
    Finished finished = RunToEnd({.command = arguments, .environment = environment});
    said_ += finished.output + finished.errors;
    return finished;
  }
  void ExpectNoSecretIn(const std::string& text) {
    EXPECT_THAT(text, AllOf(Not(HasSubstr(kAlice)), Not(HasSubstr(kBob))));
    const std::string key = TestFiles::Read(server_key_);
    for (const absl::string_view line : absl::StrSplit(key, '\n')) {
      if (line.size() > 20 && line[0] != '-') {
        EXPECT_THAT(text, Not(HasSubstr(std::string(line))));
      }
    }
  }

  TestFiles files_;
  TestAuthority authority_{&files_, "authority"};
  std::string server_key_;
  std::string said_;  // by all commands
};

TEST_F(SecuredServerTest, CallsWorkAndFunctionsOfOthersAreAsIfTheyWereNotThere) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  {
    auto alice = Client::Connect(server->address(), OptionsAs(kAlice));
    ASSERT_TRUE(alice.ok()) << alice.status();
    auto bob = Client::Connect(server->address(), OptionsAs(kBob));
    ASSERT_TRUE(bob.ok()) << bob.status();
    EXPECT_EQ((*bob)->FunctionNames(), std::vector<std::string>{"test.echo"});
    EXPECT_GT((*alice)->FunctionNames().size(), 1u);
    EXPECT_EQ((*bob)->Function("test.twice").status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ((*bob)->Function("").status().code(), absl::StatusCode::kNotFound);
    const RemoteFunction echo = FunctionNamed(**bob, "test.echo");
    const auto echoed = (*bob)->Invoke(echo, "hello");
    ASSERT_TRUE(echoed.ok()) << echoed.status();
    EXPECT_EQ(echoed->text(), "hello");
    // By the id, which is no secret, as a client of the attacker's own making would.
    const RemoteFunction twice = FunctionNamed(**alice, "test.twice");
    EXPECT_TRUE((*alice)->Invoke(twice, "hello").ok());
    const absl::Status refused = (*bob)->Invoke(twice, "hello").status();
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(absl::StrCat("has no function with id ", twice.id())));
    EXPECT_EQ(GetCallFate(refused), CallFate::kNotExecuted);
    EXPECT_TRUE((*bob)->Invoke(echo, "still there").ok());
  }
  EXPECT_EQ(server->Stop(), 0);
  EXPECT_THAT(server->log(), HasSubstr("functions that are not for who called: 1"));
  ExpectNoSecretIn(server->log());
}

TEST_F(SecuredServerTest, LeasedExecutorsKeepToThePolicyToo) {
  ServerProcess* server = Start(Leasing());
  ASSERT_NE(server, nullptr);
  auto alice = Lease::Acquire(server->address(), LeaseAs(kAlice, 1));
  ASSERT_TRUE(alice.ok()) << alice.status();
  EXPECT_EQ(Lease::Acquire(server->address(), LeaseAs(kBob, 2)).status().code(),
            absl::StatusCode::kPermissionDenied);
  auto bob = Lease::Acquire(server->address(), LeaseAs(kBob, 1));
  ASSERT_TRUE(bob.ok()) << bob.status();
  const absl::Status more = Lease::Acquire(server->address(), LeaseAs(kBob, 1)).status();
  EXPECT_EQ(more.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(more.message()), AllOf(HasSubstr("bob"), HasSubstr("1 core")));
  EXPECT_EQ((*bob)->FunctionNames(), std::vector<std::string>{"test.echo"});
  const RemoteFunction twice = FunctionNamed((*alice)->executor(0), "test.twice");
  EXPECT_TRUE((*alice)->executor(0).Invoke(twice, "hello").ok());
  EXPECT_THAT(std::string((*bob)->executor(0).Invoke(twice, "hello").status().message()),
              HasSubstr("has no function with id"));
  // Counted, and still there when the executor has ended.
  const auto forbidden = [&] {
    return Run({"drops", "--json"}, EnvironmentAs(kAlice, server)).output;
  };
  EXPECT_THAT(forbidden(), HasSubstr("\"forbidden\":1"));
  // What is uploaded is its owner's to call, and the policy says who may.
  const absl::Status upload = (*bob)->Upload(kCFunctions);
  EXPECT_EQ(upload.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(upload.message()), HasSubstr("policy"));
  ASSERT_TRUE((*alice)->Upload(kCFunctions).ok());
  EXPECT_TRUE((*alice)->Function("c.greet.de").ok());
  EXPECT_TRUE((*bob)->Release().ok());
  EXPECT_THAT(forbidden(), HasSubstr("\"forbidden\":1"));
  auto again = Lease::Acquire(server->address(), LeaseAs(kBob, 1));
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(SecuredServerTest, ALeaseIsItsTenantsInEveryService) {
  ServerProcess* server = Start(Leasing());
  ASSERT_NE(server, nullptr);
  const auto connect = [&](const char* token) {
    auto client = bootstrap::BootstrapClient::Connect(server->address(), kPatience, As(token));
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  };
  const auto alice = connect(kAlice);
  const auto bob = connect(kBob);
  const auto carol = connect(kCarol);
  ASSERT_TRUE(alice != nullptr && bob != nullptr && carol != nullptr);
  auto lease = bootstrap::Lease::Acquire(alice.get(), {}, {}, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  const uint64_t id = (*lease)->id();
  const std::string code = "no code";
  const std::string sha256 = HashOf(code)->ToBytes();
  EXPECT_TRUE(alice->GetLeaseUsage(id, kPatience).ok());
  EXPECT_TRUE(alice->Upload(id, sha256, code, kPatience).ok());
  const std::vector<absl::Status> refusals = {
      carol->GetLeaseUsage(id, kPatience).status(),
      carol->Upload(id, sha256, code, kPatience).status(),
      carol->Load(id, sha256, CodeKind::kLibrary, "x", kPatience).status()};
  for (const absl::Status& refusal : refusals) {
    EXPECT_EQ(refusal.code(), absl::StatusCode::kNotFound) << refusal;
    EXPECT_THAT(std::string(refusal.message()), HasSubstr("lease is not known"));
  }
  for (const absl::Status& refusal :
       {bob->Upload(id, sha256, code, kPatience).status(),
        bob->Load(id, sha256, CodeKind::kPython, "x", kPatience).status(),
        bob->Contribute({}, kPatience).status(), bob->GetUsage("alice", kPatience).status()}) {
    EXPECT_EQ(refusal.code(), absl::StatusCode::kPermissionDenied) << refusal;
    EXPECT_THAT(std::string(refusal.message()), HasSubstr("policy"));
  }
}

TEST_F(SecuredServerTest, TheCommandLineTakesFilesAndTheEnvironment) {
  ServerProcess* server = Start(Leasing());
  ASSERT_NE(server, nullptr);
  const ClientCredentials bob = As(kBob);
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"functions"}, {"ping", "--count=2"}, {"usage"}, {"usage", "--tenant=bob"}}) {
    const Finished finished = Run(command, EnvironmentAs(kBob, server));
    EXPECT_EQ(finished.exit_code, 0) << command[0] << ": " << finished.errors;
    EXPECT_THAT(finished.output, Not(HasSubstr("alice")));
  }
  EXPECT_EQ(Run({"functions"}, EnvironmentAs(kBob, server)).output, "test.echo\n");
  const Finished others = Run({"usage", "--tenant=alice"}, EnvironmentAs(kBob, server));
  EXPECT_EQ(others.exit_code, 3);
  EXPECT_THAT(others.errors, HasSubstr("its own usage only"));
  EXPECT_EQ(Run({"usage", "--tenant=bob"}, EnvironmentAs(kAlice, server)).exit_code, 0);

  const std::string ca = "--tls-ca=" + bob.tls_ca;
  const Finished no_token = Run({"functions", ca, "--server=" + server->address()}, {});
  EXPECT_EQ(no_token.exit_code, 3);
  EXPECT_THAT(no_token.errors, HasSubstr("asks for a token"));
  const Finished no_tls = Run({"functions", "--server=" + server->address()}, {});
  EXPECT_EQ(no_tls.exit_code, 3);
  EXPECT_THAT(no_tls.errors, HasSubstr("speaks TLS"));
  const Finished plain_too =
      Run({"functions", ca, "--plaintext", "--server=" + server->address()}, {});
  EXPECT_EQ(plain_too.exit_code, 2);

  ExpectNoSecretIn(said_);
  ExpectNoSecretIn(server->log());
  ExpectNoSecretIn(server->ready().dump());
  ExpectNoSecretIn(FileOf(server->pid(), "cmdline"));
  ExpectNoSecretIn(FileOf(server->pid(), "environ"));
}

TEST_F(SecuredServerTest, EveryCommandThatAsksAServerTakesOptionsAlone) {
  ServerProcess* server = Start(Leasing());
  ASSERT_NE(server, nullptr);
  const TestFiles inputs;
  inputs.Write("file", "hello");
  const std::string inputs_of_map = "--inputs=" + inputs.PathOf("");
  const std::string outputs_of_map = "--outputs=" + files_.PathOf("outputs");
  // Who may ask all of it.
  const ClientCredentials alice = As(kAlice);
  for (std::vector<std::string> command :
       std::vector<std::vector<std::string>>{{"functions"},
                                             {"call", "test.echo"},
                                             {"call", "--lease", "test.echo"},
                                             {"map", "test.echo", inputs_of_map, outputs_of_map},
                                             {"ping", "--count=2"},
                                             {"usage"},
                                             {"drops"},
                                             {"fabrics", "--verify", "--provider=tcp;ofi_rxm"}}) {
    for (const std::string& option : {"--server=" + server->address(), "--tls-ca=" + alice.tls_ca,
                                      "--token-file=" + alice.token_file}) {
      command.push_back(option);
    }
    const Finished finished = Run(command, kNothingOfInvoker);
    EXPECT_EQ(finished.exit_code, 0) << command[0] << ": " << finished.errors;
  }
  EXPECT_EQ(TestFiles::Read(files_.PathOf("outputs/file")), "hello");
}

TEST_F(SecuredServerTest, AHangupReadsThePolicyAgain) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  files_.Write("policy", "tenant { nonsense }\n", 0644);
  kill(server->pid(), SIGHUP);
  EXPECT_TRUE(server->AwaitLog("stays in force"));
  EXPECT_TRUE(Client::Connect(server->address(), OptionsAs(kBob)).ok());
  files_.Write("policy", Tenant("alice", kAlice, "  function: \"*\"\n"), 0644);
  kill(server->pid(), SIGHUP);
  EXPECT_TRUE(server->AwaitLog("policy read again"));
  EXPECT_EQ(Client::Connect(server->address(), OptionsAs(kBob)).status().code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(Client::Connect(server->address(), OptionsAs(kAlice)).ok());
}

TEST_F(SecuredServerTest, AServerShowsItsTokenWhereItAddsItsUsage) {
  ServerProcess* there = Start({"--usage-counters"});
  ASSERT_NE(there, nullptr);
  const ClientCredentials alice = As(kAlice);
  ServerProcessOptions options;
  options.provider = "tcp;ofi_rxm";
  options.functions = {kTestFunctions};
  options.more = {"--usage-to=" + there->address(), "--usage-tls-ca=" + alice.tls_ca,
                  "--usage-token-file=" + alice.token_file};
  ServerProcess* here = StartServer(options);
  ASSERT_NE(here, nullptr);
  {
    ClientOptions client_options;
    client_options.peer_timeout = absl::Seconds(5);
    client_options.hot_timeout = kClientHotTimeout;
    auto client = Client::Connect(here->address(), client_options);
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_TRUE((*client)->Invoke(FunctionNamed(**client, "test.echo"), "hello").ok());
  }
  const auto asking = bootstrap::BootstrapClient::Connect(there->address(), kPatience, alice);
  ASSERT_TRUE(asking.ok()) << asking.status();
  const absl::Time until = absl::Now() + kPatience;
  bool added = false;
  while (!added && absl::Now() < until) {
    const auto records = (*asking)->GetUsage("", kPatience);
    ASSERT_TRUE(records.ok()) << records.status();
    for (const bootstrap::UsageRecord& record : *records) {
      added |= record.contributed && record.usage.calls == 1;
    }
    // The round is the other process's: its end cannot be waited for.
    if (!added) absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(added);
}

TEST_F(SecuredServerTest, ThePolicyCommandChecksAndHashes) {
  const Finished good =
      Run({"policy", "check", files_.Write("policy", PolicyText(), 0644)}, {"INVOKER_SERVER"});
  EXPECT_EQ(good.exit_code, 0) << good.errors;
  EXPECT_THAT(good.output, AllOf(HasSubstr("tenant \"alice\""), HasSubstr("tenant \"bob\""),
                                 HasSubstr("at most 1 at a time")));
  const std::string bad = files_.Write("bad", "tenant {\n  name: 3\n}\n", 0644);
  const Finished wrong = Run({"policy", "check", bad}, {});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.errors, HasSubstr(bad + ":2:"));
  const Finished hash =
      Run({"policy", "hash", files_.Write("token", std::string(kBob) + "\n")}, {});
  EXPECT_EQ(hash.exit_code, 0) << hash.errors;
  EXPECT_EQ(hash.output, absl::StrCat("token_sha256: \"", HashOf(kBob)->ToHex(), "\"\n"));
  EXPECT_EQ(Run({"policy"}, {}).exit_code, 2);
  ExpectNoSecretIn(hash.output);
}

}  // namespace
}  // namespace invoker
