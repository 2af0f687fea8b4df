// The `invoker` program as a shell user sees it: exit statuses, messages, files and pipes.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"
#include "tests/integration/rendezvous.h"
#include "tests/transport/immediates.h"

namespace invoker {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

constexpr char kInvoker[] = "tools/invoker";

// What sessions with the test's server have.
const std::string kStrongest(NotificationName(transport::StrongestOn("tcp;ofi_rxm")));

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// One server for all tests of a class; files in a directory of the test's own.
class InvokerCliTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto server = ServerProcess::Start({.provider = "tcp;ofi_rxm", .executors = 2});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
  }
  static void TearDownTestSuite() {
    if (server_ == nullptr) return;
    EXPECT_EQ(server_->Stop(), 0) << server_->log();
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    ASSERT_NE(server_, nullptr);
    directory_ = testing::TempDir() + "/cli.XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
  }
  void TearDown() override { EXPECT_EQ(RunToEnd({{"/bin/rm", "-r", directory_}}).exit_code, 0); }

  static std::string Server() { return "--server=" + server_->address(); }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  // invoker SUBCOMMAND --server=... ARGUMENTS
  static Finished Run(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), kInvoker);
    arguments.insert(arguments.begin() + 2, Server());
    return RunToEnd({.command = arguments, .input = input});
  }
  // Without a server among the arguments.
  static Finished RunBare(std::vector<std::string> arguments,
                          const std::vector<std::string>& environment = {"INVOKER_SERVER"}) {
    arguments.insert(arguments.begin(), kInvoker);
    return RunToEnd({.command = arguments, .environment = environment});
  }
  Finished RunShell(const std::string& script) const {
    return RunToEnd(
        {.command = {"/bin/sh", "-c", script},
         .environment = {absl::StrCat("INVOKER_SERVER=", server_->address()),
                         absl::StrCat("invoker=", kInvoker), absl::StrCat("dir=", directory_)}});
  }

  static ServerProcess* server_;
  std::string directory_;
};

ServerProcess* InvokerCliTest::server_ = nullptr;

// What every failure has: the status, a line on standard error that begins alike, nothing on
// standard output.
void ExpectFailure(const Finished& finished, int exit_code, const std::vector<std::string>& parts) {
  EXPECT_EQ(finished.exit_code, exit_code) << finished.errors;
  EXPECT_EQ(finished.output, "");
  EXPECT_THAT(finished.errors, StartsWith("invoker: error: "));
  for (const std::string& part : parts) EXPECT_THAT(finished.errors, HasSubstr(part));
}

TEST_F(InvokerCliTest, FunctionsListsOneNamePerLine) {
  const Finished finished = Run({"functions"});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  const std::vector<std::string> lines = absl::StrSplit(finished.output, '\n');
  EXPECT_THAT(lines, testing::Contains("test.echo"));
  EXPECT_THAT(lines, testing::Contains("c.greet.de"));
  EXPECT_EQ(lines.size(), server_->ready()["functions"].size() + 1);
  EXPECT_EQ(lines.back(), "");
}

TEST_F(InvokerCliTest, LongLinesOfFunctionsSayWhatTheyTakeReturnAndDo) {
  const Finished finished = Run({"functions", "--long"});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_THAT(finished.output, HasSubstr("\ntest.echo bytes\n"));
  EXPECT_THAT(finished.output,
              HasSubstr("\ntest.repeat (str, u32) -> str\n    the text so many times\n"));
  const auto json = nlohmann::json::parse(Run({"functions", "--json"}).output);
  EXPECT_EQ(json["signatures"]["test.repeat"], "(str, u32) -> str");
  EXPECT_EQ(json["docs"]["test.repeat"], "the text so many times");
  EXPECT_FALSE(json["docs"].contains("test.echo"));
}

TEST_F(InvokerCliTest, FunctionsAsJsonIsOneLine) {
  const Finished finished = Run({"functions", "--json"});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_EQ(std::count(finished.output.begin(), finished.output.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(finished.output);
  EXPECT_EQ(json["functions"], server_->ready()["functions"]);
  EXPECT_EQ(json["server"], server_->address());
  EXPECT_EQ(json["provider"], "tcp;ofi_rxm");
  EXPECT_EQ(json["providers"], nlohmann::json({"tcp;ofi_rxm"}));
  EXPECT_EQ(json["executors"], 2);
}

TEST_F(InvokerCliTest, CallTakesStandardInputAndWritesStandardOutput) {
  const Finished finished = Run({"call", "test.twice"}, "ab\n");
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_EQ(finished.output, "ab\nab\n");
  EXPECT_EQ(finished.errors, "");
  EXPECT_EQ(Run({"call", "test.twice", "--input=-", "--output=-"}, "x").output, "xx");
  EXPECT_EQ(Run({"call", "test.twice", "--input", "-", "--output", "-"}, "x").output, "xx");
}

TEST_F(InvokerCliTest, BinaryDataOfEverySizeGoesThroughFilesAndPipesUnchanged) {
  const uint64_t seed = TestSeed();
  for (uint64_t size : {0, 1, 255, 4096, 1'000'000, (2 << 20) - 32}) {
    const std::string data = RandomBytes(size, seed);
    std::ofstream(Path("in"), std::ios::binary) << data;
    ASSERT_EQ(
        Run({"call", "test.echo", "--input=" + Path("in"), "--output=" + Path("out")}).exit_code,
        0);
    EXPECT_TRUE(ReadFile(Path("out")) == data) << size;
    const Finished piped = RunShell(
        "cat $dir/in | $invoker call test.echo | cat > $dir/piped && cmp $dir/in $dir/piped");
    EXPECT_EQ(piped.exit_code, 0) << piped.errors;
  }
}

TEST_F(InvokerCliTest, ATerminalWithoutAnInputOptionStandsForNoInput) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) GTEST_SKIP() << "this machine has no pseudo-terminals";
  ASSERT_EQ(grantpt(terminal) | unlockpt(terminal), 0);
  const int side = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(side, 0);
  const Finished finished =
      RunToEnd({.command = {kInvoker, "call", "test.checksum", Server()}, .stdin_fd = side});
  close(side);
  close(terminal);
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_EQ(finished.output, ChecksumOf(""));
}

TEST_F(InvokerCliTest, AnOutputFileIsReplacedWholeAndKeepsItsMode) {
  std::ofstream(Path("out")) << "an older and longer answer";
  ASSERT_EQ(chmod(Path("out").c_str(), 0640), 0);
  ASSERT_EQ(symlink("out", Path("link").c_str()), 0);
  EXPECT_EQ(Run({"call", "test.echo", "--output=" + Path("link")}, "new").exit_code, 0);
  EXPECT_EQ(ReadFile(Path("out")), "new");
  struct stat file;
  ASSERT_EQ(lstat(Path("out").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777, 0640u);
  ASSERT_EQ(lstat(Path("link").c_str(), &file), 0);
  EXPECT_TRUE(S_ISLNK(file.st_mode));
}

TEST_F(InvokerCliTest, AnOutputFileIsLeftAloneIfTheCallFails) {
  std::ofstream(Path("out")) << "precious";
  ExpectFailure(Run({"call", "test.fail", "--output=" + Path("out")}, "no luck"), 1, {"no luck"});
  ExpectFailure(Run({"call", "test.fail", "--output=" + Path("new")}, "no luck"), 1, {"no luck"});
  EXPECT_EQ(ReadFile(Path("out")), "precious");
  EXPECT_NE(access(Path("new").c_str(), F_OK), 0);
  EXPECT_EQ(RunToEnd({{"/bin/ls", directory_}}).output, "out\n");
}

TEST_F(InvokerCliTest, ADeviceAsOutputIsWrittenToAndNotReplaced) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  const Finished finished = RunShell(
      "cat $dir/fifo & $invoker call test.echo --output=$dir/fifo < /dev/null && wait && "
      "echo hello | $invoker call test.echo --output=/dev/null && test -p $dir/fifo -a -c "
      "/dev/null");
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
}

TEST_F(InvokerCliTest, FilesThatCannotBeReadOrWrittenAreNamed) {
  ExpectFailure(Run({"call", "test.echo", "--input=" + Path("none")}), 1,
                {Path("none"), "No such file"});
  ExpectFailure(Run({"call", "test.echo", "--input=" + directory_}), 1, {directory_});
  ExpectFailure(Run({"call", "test.echo", "--output=" + Path("none/out")}), 1,
                {Path("none/out"), "No such file"});
  ExpectFailure(Run({"call", "test.echo", "--output=" + directory_}), 1, {directory_, "directory"});
}

TEST_F(InvokerCliTest, OutputThatNobodyTakesIsAnErrorAndNoSignal) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  close(pipe_ends[0]);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{kInvoker, "call", "test.echo", Server()},
        {kInvoker, "functions", Server()},
        {kInvoker, "ping", Server(), "--count=3"}}) {
    ExpectFailure(RunToEnd({.command = command, .input = "x", .stdout_fd = pipe_ends[1]}), 1,
                  {"standard output", "Broken pipe"});
  }
  close(pipe_ends[1]);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ExpectFailure(RunToEnd({.command = {kInvoker, "functions", Server()}, .stdout_fd = full}), 1,
                {"No space"});
  close(full);
}

TEST_F(InvokerCliTest, FailuresOfTheFunctionAreStatusOne) {
  ExpectFailure(Run({"call", "test.fail"}, "it rains"), 1, {"it rains", "[executed]"});
  ExpectFailure(Run({"call", "c.refuse"}, "abc"), 1, {"refused 3 bytes", "-1007"});
  ExpectFailure(Run({"call", "test.throw"}, "caught"), 1, {"caught"});
  // What it says is not to command the terminal.
  const Finished colored = Run({"call", "test.fail"}, "\x1b[31mred\x07 \xc3\xa4");
  ExpectFailure(colored, 1, {"?[31mred? \xc3\xa4"});
}

TEST_F(InvokerCliTest, AnUnknownFunctionIsStatusOneAndTheOthersAreNamed) {
  ExpectFailure(Run({"call", "test.nothing"}), 1, {"test.nothing", "test.echo"});
}

TEST_F(InvokerCliTest, PayloadsMayBeLargerThanTheWindow) {
  for (const size_t size : {(2 << 20) - 32, (2 << 20) - 31, 5'000'000}) {
    const std::string input(size, 'x');
    const Finished finished = Run({"call", "test.echo"}, input);
    EXPECT_EQ(finished.exit_code, 0) << size << finished.errors;
    EXPECT_TRUE(finished.output == input) << size << " " << finished.output.size();
  }
  const Finished twice =
      Run({"call", "test.twice", "--response-capacity=4M"}, std::string(2'000'000, 'x'));
  EXPECT_EQ(twice.exit_code, 0) << twice.errors;
  EXPECT_TRUE(twice.output == std::string(4'000'000, 'x')) << twice.output.size();
}

TEST_F(InvokerCliTest, AnAnswerThatHasNoRoomIsStatusOneWithWhatItNeeds) {
  ExpectFailure(Run({"call", "test.twice"}, std::string(2'000'000, 'x')), 1, {"4000000"});
  ExpectFailure(Run({"call", "test.echo", "--response-capacity=4"}, "12345"), 1, {"5 bytes"});
  EXPECT_EQ(Run({"call", "test.echo", "--response-capacity=5"}, "12345").output, "12345");
  ExpectFailure(Run({"call", "test.echo", "--response-capacity=2000000000000"}, "x"), 1,
                {"no memory"});
}

TEST_F(InvokerCliTest, ATimeoutIsStatusFour) {
  Rendezvous rendezvous;
  // Longer and longer, until it has begun before its deadline passed, on a machine however busy.
  for (int ms = 50; !rendezvous.HasBegun(); ms *= 4) {
    ASSERT_LT(ms, 60'000);
    const std::vector<std::string> command = {"call", "test.rendezvous",
                                              absl::StrCat("--timeout=", ms, "ms")};
    const Finished ended = Run(command, rendezvous.path());
    if (rendezvous.HasBegun()) ExpectFailure(ended, 4, {"deadline", "[maybe_executed]"});
  }
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  rendezvous.Release();
}

TEST_F(InvokerCliTest, AServerThatIsNotThereIsStatusThree) {
  for (const char* command : {"functions", "ping"}) {
    ExpectFailure(RunBare({command, "--server=127.0.0.1:1"}), 3, {"127.0.0.1:1", "refused"});
  }
  ExpectFailure(RunBare({"call", "test.echo", "--server=127.0.0.1:1"}), 3,
                {"127.0.0.1:1", "refused"});
}

TEST_F(InvokerCliTest, AnotherProviderIsStatusThreeWithBothNames) {
  ExpectFailure(Run({"call", "test.echo", "--provider=shm"}), 3, {"shm", "tcp;ofi_rxm"});
  ExpectFailure(Run({"ping", "--provider=carrier-pigeon"}), 3, {"carrier-pigeon"});
  ExpectFailure(Run({"ping", "--fabric-address=198.51.100.77"}), 3, {"198.51.100.77"});
}

TEST_F(InvokerCliTest, BadArgumentsAreStatusTwo) {
  ExpectFailure(RunBare({}), 2, {"subcommand"});
  ExpectFailure(RunBare({"dance"}), 2, {});
  ExpectFailure(RunBare({"functions"}), 2, {"--server"});
  ExpectFailure(RunBare({"functions", "--server=nowhere"}), 2, {"nowhere", "HOST:PORT"});
  ExpectFailure(Run({"call"}), 2, {"NAME"});
  ExpectFailure(Run({"call", "test.echo", "and.another"}), 2, {"and.another"});
  ExpectFailure(Run({"call", "test.echo", "--timeout=soon"}), 2, {"--timeout", "soon"});
  ExpectFailure(Run({"call", "test.echo", "--notify=by_mail"}), 2, {"by_mail", "write_imm"});
  ExpectFailure(Run({"ping", "--count=0"}), 2, {"--count"});
  ExpectFailure(Run({"ping", "--size=many"}), 2, {"--size", "many"});
  ExpectFailure(Run({"ping", "--nonsense"}), 2, {"--nonsense"});
}

TEST_F(InvokerCliTest, TheServerMayComeFromTheEnvironment) {
  const std::string variable = "INVOKER_SERVER=" + server_->address();
  EXPECT_EQ(RunBare({"functions"}, {variable}).exit_code, 0);
  EXPECT_EQ(RunBare({"ping", "--count=1"}, {variable}).exit_code, 0);
  EXPECT_EQ(RunBare({"functions", Server()}, {"INVOKER_SERVER=127.0.0.1:1"}).exit_code, 0);
}

TEST_F(InvokerCliTest, ThePeerTimeoutMayComeFromTheEnvironment) {
  const std::string server = absl::StrCat("INVOKER_SERVER=", server_->address());
  const Finished bad = RunBare({"functions"}, {server, "INVOKER_PEER_TIMEOUT=soon"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.errors, HasSubstr("soon"));
  const std::vector<std::string> too_short = {server, "INVOKER_PEER_TIMEOUT=1us"};
  const Finished refused = RunBare({"ping", "--count=1"}, too_short);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.errors, HasSubstr("a peer timeout of 1us"));
  // The option comes first.
  EXPECT_EQ(RunBare({"ping", "--count=1", "--peer-timeout=20s"}, too_short).exit_code, 0);
}

TEST_F(InvokerCliTest, HelpIsEverywhereAndNamesTheExitStatuses) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"functions", "--help"},
                                                    {"call", "--help"},
                                                    {"ping", "--help"}}) {
    const Finished finished = RunBare(arguments);
    EXPECT_EQ(finished.exit_code, 0);
    EXPECT_EQ(finished.errors, "");
    EXPECT_THAT(finished.output, HasSubstr("Exit status"));
    EXPECT_THAT(finished.output, HasSubstr("4 the timeout passed"));
  }
  EXPECT_THAT(RunBare({"call", "--help"}).output, HasSubstr("--response-capacity"));
  EXPECT_THAT(RunBare({"ping", "--help"}).output, HasSubstr("--interval"));
  EXPECT_THAT(RunBare({"--version"}).output, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(InvokerCliTest, PingPrintsALineForEachAndASummary) {
  const Finished finished = Run({"ping", "--count=3", "--size=1K"});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  const std::vector<std::string> lines = absl::StrSplit(finished.output, '\n');
  ASSERT_EQ(lines.size(), 8u) << finished.output;
  EXPECT_THAT(lines[0],
              MatchesRegex("PING 127\\.0\\.0\\.1:[0-9]+ over tcp;ofi_rxm: the only one that "
                           "the worker offers"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(lines[i + 1],
                MatchesRegex(absl::StrCat("1024 bytes from 127\\.0\\.0\\.1:[0-9]+: seq=", i + 1,
                                          " time=[0-9]+\\.[0-9] us")));
  }
  EXPECT_THAT(lines[4], HasSubstr(absl::StrCat("provider tcp;ofi_rxm, notification ", kStrongest,
                                               ", 1024 bytes")));
  EXPECT_EQ(lines[5], "3 sent, 3 answered, 0 timed out");
  EXPECT_THAT(lines[6], MatchesRegex("min/p50/p99/max = ([0-9]+\\.[0-9]/){3}[0-9]+\\.[0-9] us"));
}

TEST_F(InvokerCliTest, PingCanBeQuiet) {
  const Finished quiet = Run({"ping", "--count=3", "--quiet"});
  EXPECT_THAT(quiet.output, StartsWith("--- "));
  EXPECT_THAT(quiet.output, Not(HasSubstr("seq=")));
  // Many lines are no use to anybody.
  EXPECT_THAT(Run({"ping", "--count=200"}).output, Not(HasSubstr("seq=")));
}

TEST_F(InvokerCliTest, PingAsJsonIsOneLineInOrder) {
  for (const std::string& notify : {kStrongest, std::string("send_after_write")}) {
    const Finished finished =
        Run({"ping", "--count=20", "--json", "--size=0", absl::StrCat("--notify=", notify)});
    EXPECT_EQ(finished.exit_code, 0) << finished.errors;
    EXPECT_EQ(std::count(finished.output.begin(), finished.output.end(), '\n'), 1);
    const auto json = nlohmann::json::parse(finished.output);
    EXPECT_EQ(json["count"], 20);
    EXPECT_EQ(json["sent"], 20);
    EXPECT_EQ(json["size"], 0);
    EXPECT_EQ(json["provider"], "tcp;ofi_rxm");
    EXPECT_EQ(json["fabric_choice"], "tcp;ofi_rxm: the only one that the worker offers");
    EXPECT_EQ(json["notification"], notify);
    EXPECT_GT(json["min_us"], 0);
    EXPECT_LE(json["min_us"], json["p50_us"]);
    EXPECT_LE(json["p50_us"], json["p99_us"]);
    EXPECT_LE(json["p99_us"], json["max_us"]);
  }
}

TEST_F(InvokerCliTest, APingThatIsTooLargeIsRefused) {
  ExpectFailure(Run({"ping", "--size=2M"}), 1, {"2097152", "2097120"});
  EXPECT_EQ(Run({"ping", "--size=2097120", "--count=2"}).exit_code, 0);
}

TEST_F(InvokerCliTest, AnInterruptEndsPingWithItsSummary) {
  auto child = ChildProcess::Start({{kInvoker, "ping", Server(), "--count=100", "--interval=1h"}});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE((*child)->FirstLine().ok());
  (*child)->Signal(SIGINT);
  EXPECT_EQ((*child)->Wait(), 0) << (*child)->Errors();
  EXPECT_THAT((*child)->Output(), HasSubstr("\n1 sent, 1 answered, 0 timed out\nmin/p50/p99/max"));
}

TEST_F(InvokerCliTest, CallTellsItsFabricWhenItIsToBeVerbose) {
  for (const char* option : {"-v", "--verbose"}) {
    const Finished finished = Run({"call", "test.twice", option, "--provider=tcp;ofi_rxm"}, "a");
    EXPECT_EQ(finished.output, "aa");
    EXPECT_EQ(finished.errors, "invoker: connected over tcp;ofi_rxm: asked for by name\n");
  }
}

TEST_F(InvokerCliTest, TheBestFabricIsTakenAndAnyOtherMayBeNamed) {
  auto server = ServerProcess::Start({});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = "--server=" + (*server)->address();
  for (const char* provider : {"auto", "shm", "tcp;ofi_rxm"}) {
    const Finished ping = RunToEnd({{kInvoker, "ping", address, "--count=1", "--json",
                                     absl::StrCat("--provider=", provider)}});
    ASSERT_EQ(ping.exit_code, 0) << ping.errors;
    const auto json = nlohmann::json::parse(ping.output);
    EXPECT_EQ(json["provider"], provider == std::string("auto") ? "shm" : provider);
    EXPECT_THAT(std::string(json["fabric_choice"]),
                HasSubstr(provider == std::string("auto") ? "same host" : "asked for by name"));
  }
  const auto functions =
      nlohmann::json::parse(RunToEnd({{kInvoker, "functions", address, "--json"}}).output);
  EXPECT_THAT(functions["providers"], testing::Contains("tcp;ofi_rxm"));
  EXPECT_EQ((*server)->Stop(), 0);
  EXPECT_EQ(SharedMemoryOf((*server)->pid()), std::vector<std::string>());
}

TEST_F(InvokerCliTest, SharedMemoryWorksAsWell) {
  auto server = ServerProcess::Start({.provider = "shm"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = "--server=" + (*server)->address();
  const Finished call =
      RunToEnd({.command = {kInvoker, "call", "test.twice", address}, .input = "a"});
  EXPECT_EQ(call.output, "aa") << call.errors;
  const Finished ping = RunToEnd({{kInvoker, "ping", address, "--count=5", "--json"}});
  EXPECT_EQ(nlohmann::json::parse(ping.output)["provider"], "shm") << ping.errors;
  EXPECT_EQ((*server)->Stop(), 0);
  EXPECT_EQ(SharedMemoryOf((*server)->pid()), std::vector<std::string>());
}

}  // namespace
}  // namespace invoker
