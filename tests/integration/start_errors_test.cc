// Servers that cannot start say why, and what a server that has started says of itself.

#include <gmock/gmock.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/bootstrap/messages/host_port.h"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

using testing::HasSubstr;

class StartTest : public ServerTest {
 protected:
  // A server that ends by itself, with nothing on standard output.
  Finished RunServer(const ServerProcessOptions& options) {
    Finished finished = RunToEnd({ServerCommand(options)});
    EXPECT_EQ(finished.output, "");
    EXPECT_THAT(finished.errors, HasSubstr("invoker_server: error: "));
    return finished;
  }
};

TEST_F(StartTest, TheReadyLineDescribesTheServer) {
  ServerProcessOptions options;
  options.provider = "shm";
  options.notify = "send_after_write";
  options.window = "64K";
  options.executors = 2;
  options.functions = {kCFunctions};
  ServerProcess* server = StartServer(options);
  ASSERT_NE(server, nullptr);
  const nlohmann::json& ready = server->ready();
  EXPECT_EQ(ready["ready"], true);
  EXPECT_THAT(std::string(ready["listen"]), testing::MatchesRegex("127\\.0\\.0\\.1:[0-9]+"));
  EXPECT_NE(server->port(), 0);
  EXPECT_EQ(ready["provider"], "shm");
  ASSERT_EQ(ready["fabrics"].size(), 1u);
  EXPECT_EQ(ready["fabrics"][0]["provider"], "shm");
  EXPECT_EQ(ready["fabrics"][0]["same_host_only"], true);
  EXPECT_EQ(ready["notify"], "send_after_write");
  EXPECT_EQ(ready["window"], 65536);
  EXPECT_EQ(ready["executors"], 2);
  EXPECT_EQ(ready["pid"], server->pid());
  EXPECT_EQ(ready["functions"],
            nlohmann::json({"c.reverse", "c.refuse", "c.greet.en", "c.greet.de"}));
  EXPECT_TRUE(ready["fabric_address"].is_string());
  EXPECT_TRUE(ready["version"].is_string());
  EXPECT_GT(ready["lease_cores"], 0);
  EXPECT_GT(ready["lease_memory"], 0);
  EXPECT_EQ(ready["python"], false);
  EXPECT_EQ(ready["allow_upload"], "none");
  EXPECT_EQ(ready.size(), 15u) << ready;
}

// What `fabrics` of the ready line says of this provider; null if it is not offered.
nlohmann::json FabricOf(const ServerProcess& server, const std::string& provider) {
  for (const nlohmann::json& fabric : server.ready()["fabrics"]) {
    if (fabric["provider"] == provider) return fabric;
  }
  return nullptr;
}

TEST_F(StartTest, TheDefaultsAreLoopbackAndEveryFabricThatWorks) {
  for (const char* provider : {"", "auto"}) {
    ServerProcess* server = StartServer({.provider = provider});
    ASSERT_NE(server, nullptr);
    EXPECT_EQ(server->ready()["provider"], server->ready()["fabrics"][0]["provider"]);
    EXPECT_EQ(server->ready()["provider"], "shm");
    EXPECT_EQ(FabricOf(*server, "shm")["same_host_only"], true);
    const nlohmann::json tcp = FabricOf(*server, "tcp;ofi_rxm");
    EXPECT_EQ(tcp["fabric_address"], "127.0.0.1");
    EXPECT_EQ(tcp["same_host_only"], false);
    EXPECT_EQ(tcp["notification"],
              std::string(NotificationName(transport::StrongestOn("tcp;ofi_rxm"))));
    // Only by name.
    EXPECT_EQ(FabricOf(*server, "sockets"), nullptr);
    EXPECT_EQ(server->ready()["notify"], "auto");
    EXPECT_EQ(server->ready()["window"], 2 << 20);
  }
}

TEST_F(StartTest, SeveralProvidersAreServedInTheOrderGiven) {
  ServerProcess* server = StartServer({.provider = "sockets,shm"});
  ASSERT_NE(server, nullptr);
  ASSERT_EQ(server->ready()["fabrics"].size(), 2u);
  EXPECT_EQ(server->ready()["fabrics"][0]["provider"], "sockets");
  EXPECT_EQ(server->ready()["fabrics"][1]["provider"], "shm");
  EXPECT_EQ(server->ready()["provider"], "sockets");
}

TEST_F(StartTest, OneProviderOfSeveralThatDoesNotExistIsRefused) {
  const Finished finished = RunServer({.provider = "shm,carrier-pigeon"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.errors, HasSubstr("carrier-pigeon"));
}

TEST_F(StartTest, ListsOfProvidersThatMakeNoSenseAreRefused) {
  for (const char* providers : {"auto,shm", "shm,shm"}) {
    const Finished finished = RunServer({.provider = providers});
    EXPECT_EQ(finished.exit_code, 2) << finished.errors;
  }
}

TEST_F(StartTest, ANameIsListenedOnAtItsAddress) {
  if (!bootstrap::LeadsToLoopback("localhost").value_or(false)) {
    GTEST_SKIP() << "this machine's resolver does not know localhost (no /etc/hosts)";
  }
  auto child = ChildProcess::Start(
      {{"tools/invoker_server", "--listen=localhost:0", "--provider=tcp;ofi_rxm"}});
  ASSERT_TRUE(child.ok()) << child.status();
  const auto line = (*child)->FirstLine();
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(nlohmann::json::parse(*line)["fabric_address"], "127.0.0.1");
  (*child)->Signal(SIGTERM);
  EXPECT_EQ((*child)->Wait(), 0) << (*child)->Errors();
}

TEST_F(StartTest, APortInUseIsRefused) {
  ServerProcess* server = StartServer({});
  ASSERT_NE(server, nullptr);
  ServerProcessOptions options;
  options.more = {"--listen=" + server->address()};
  std::vector<std::string> command = ServerCommand(options);
  command.erase(command.begin() + 1);  // the other --listen
  const Finished finished = RunToEnd({command});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_EQ(finished.output, "");
  EXPECT_THAT(finished.errors, HasSubstr("in use"));
  EXPECT_THAT(finished.errors, HasSubstr(server->address()));
}

TEST_F(StartTest, AMissingLibraryIsRefused) {
  const Finished finished = RunServer({.functions = {"./nothing_here.so"}});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.errors, HasSubstr("nothing_here.so"));
  EXPECT_THAT(finished.errors, HasSubstr("No such file"));
}

TEST_F(StartTest, AFileThatIsNoSharedLibraryIsRefused) {
  const Finished finished = RunServer({.functions = {"tests/integration/start_errors_test.cc"}});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.errors, HasSubstr("start_errors_test.cc"));
  EXPECT_THAT(finished.errors, HasSubstr("shared library"));
}

TEST_F(StartTest, ALibraryWithoutAFunctionTableIsRefused) {
  const Finished finished = RunServer({.functions = {"tests/functions/no_entry_point.so"}});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.errors, HasSubstr("no_entry_point.so"));
  EXPECT_THAT(finished.errors, HasSubstr("invoker_get_module"));
}

TEST_F(StartTest, ALibraryWithAMissingSymbolIsRefused) {
  const Finished finished = RunServer({.functions = {"tests/functions/unresolved_symbol.so"}});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.errors, HasSubstr("invoker_test_symbol_that_nobody_defines"));
}

TEST_F(StartTest, ALibraryForAnotherVersionOfTheAbiIsRefused) {
  const Finished finished = RunServer({.functions = {"tests/functions/wrong_abi.so"}});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.errors, HasSubstr("wrong_abi.so"));
}

TEST_F(StartTest, ANameThatTwoLibrariesDefineIsRefused) {
  const Finished finished =
      RunServer({.functions = {kTestFunctions, "tests/functions/duplicate_names.so"}});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.errors, HasSubstr("duplicate_names.so"));
}

TEST_F(StartTest, TheSameLibraryTwiceIsRefused) {
  const Finished finished = RunServer({.functions = {kCFunctions, kCFunctions}});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.errors, HasSubstr("c.reverse"));
}

TEST_F(StartTest, AProviderThatDoesNotExistIsRefused) {
  const Finished finished = RunServer({.provider = "carrier-pigeon"});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.errors, HasSubstr("carrier-pigeon"));
}

TEST_F(StartTest, AFabricAddressThatDoesNotExistIsRefused) {
  for (const char* address : {"198.51.100.77", "nosuchif0"}) {
    const Finished finished = RunServer(
        {.provider = "tcp;ofi_rxm", .more = {absl::StrCat("--fabric-address=", address)}});
    EXPECT_NE(finished.exit_code, 0);
    EXPECT_THAT(finished.errors, HasSubstr(address));
    const Finished automatic = RunServer({.more = {absl::StrCat("--fabric-address=", address)}});
    EXPECT_EQ(automatic.exit_code, 1);
    EXPECT_THAT(automatic.errors, HasSubstr(address));
  }
}

TEST_F(StartTest, AWindowThatIsNoPowerOfTwoIsRefused) {
  for (const char* window : {"5000", "100M", "0", "2048", "2G"}) {
    const Finished finished = RunServer({.window = window});
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_THAT(finished.errors, HasSubstr("power of two"));
  }
}

TEST_F(StartTest, BadArgumentsAreRefused) {
  for (const char* argument : {"--executors=0", "--executors=many", "--notify=by_mail",
                               "--window=huge", "--hot-timeout=soon", "--nonsense", "--listen=x"}) {
    const Finished finished = RunToEnd({{"tools/invoker_server", argument}});
    EXPECT_EQ(finished.exit_code, 2) << argument << ": " << finished.errors;
    EXPECT_EQ(finished.output, "");
    EXPECT_THAT(finished.errors, HasSubstr("invoker_server: error: ")) << argument;
  }
}

TEST_F(StartTest, HelpAndVersionGoToStandardOutput) {
  const Finished help = RunToEnd({{"tools/invoker_server", "--help"}});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* option : {"--listen", "--provider", "--fabric-address", "--executors",
                             "--functions", "--notify", "--window", "--hot-timeout"}) {
    EXPECT_THAT(help.output, HasSubstr(option));
  }
  const Finished version = RunToEnd({{"tools/invoker_server", "--version"}});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.output, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(StartTest, EitherSignalStopsAServer) {
  for (const int number : {SIGTERM, SIGINT}) {
    auto child = ChildProcess::Start({ServerCommand({.provider = "shm"})});
    ASSERT_TRUE(child.ok()) << child.status();
    ASSERT_TRUE((*child)->FirstLine().ok());
    (*child)->Signal(number);
    EXPECT_EQ((*child)->Wait(), 0) << (*child)->Errors();
    EXPECT_EQ(SharedMemoryOf((*child)->pid()), std::vector<std::string>());
    EXPECT_THAT((*child)->Errors(), HasSubstr(strsignal(number)));
  }
}

}  // namespace
}  // namespace invoker
