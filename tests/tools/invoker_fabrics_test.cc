// `invoker fabrics` as a shell user sees it: the document, the table, and what it says where
// something is missing.

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/integration/child_process.h"
#include "tests/integration/server_process.h"
#include "tests/transport/immediates.h"
#include "tests/transport/in_libfabric.h"

namespace invoker {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr char kInvoker[] = "tools/invoker";

// What every machine has.
const std::vector<std::string> kEverywhere = transport::ThoseInLibfabric<std::string>(
    {"tcp;ofi_rxm", "shm", "sockets", "udp;ofi_rxd", "net", "tcp"});

Finished RunFabrics(std::vector<std::string> arguments,
                    std::vector<std::string> environment = {"FI_PROVIDER"}) {
  arguments.insert(arguments.begin(), {kInvoker, "fabrics"});
  return RunToEnd({.command = arguments, .environment = environment});
}

// The same, and the process that ran is known: what it may have left carries its number.
struct Left {
  Finished finished;
  std::vector<std::string> shared_memory;
};
Left RunAndLook(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {kInvoker, "fabrics"});
  auto child = ChildProcess::Start({.command = arguments});
  EXPECT_TRUE(child.ok()) << child.status();
  if (!child.ok()) return {};
  Left left;
  left.finished.exit_code = (*child)->Wait();
  left.finished.output = (*child)->Output();
  left.finished.errors = (*child)->Errors();
  left.shared_memory = SharedMemoryOf((*child)->pid());
  return left;
}

std::set<std::string> ProvidersIn(const nlohmann::json& document, const char* list = "fabrics") {
  std::set<std::string> providers;
  for (const auto& fabric : document[list]) providers.insert(fabric["provider"]);
  return providers;
}

TEST(InvokerFabrics, VerifiesEveryFabricOfTheMachine) {
  const Left left = RunAndLook({"--verify", "--json"});
  ASSERT_EQ(left.finished.exit_code, 0) << left.finished.errors;
  EXPECT_EQ(left.finished.errors, "");
  EXPECT_THAT(left.shared_memory, testing::IsEmpty());
  const auto document = nlohmann::json::parse(left.finished.output);
  EXPECT_THAT(ProvidersIn(document), IsSupersetOf(kEverywhere));
  std::set<std::string> passed;
  for (const auto& fabric : document["fabrics"]) {
    SCOPED_TRACE(fabric.dump());
    if (!fabric["usable"].get<bool>()) {
      EXPECT_TRUE(fabric["unusable_reason"].is_string());
      EXPECT_TRUE(fabric["observed"].is_null());
      continue;
    }
    const auto& observed = fabric["observed"];
    ASSERT_TRUE(observed.is_object());
    if (!observed["ok"].get<bool>()) continue;
    passed.insert(fabric["provider"]);
    const bool immediates =
        transport::StrongestOn(fabric["provider"].get<std::string>()) == Notification::kWriteImm;
    EXPECT_EQ(observed["immediate_crossed"].get<bool>(), immediates);
    EXPECT_TRUE(observed["send_after_write_crossed"].get<bool>());
    if (immediates) {
      EXPECT_EQ(observed["immediate_bytes"], fabric["claims"]["cq_data_bytes"]);
    }
    EXPECT_GT(observed["round_trips"], 0);
    EXPECT_GT(observed["round_trip_p50_us"], 0);
    EXPECT_THAT(observed["atomics"].get<std::string>(), testing::AnyOf("native", "message"));
    for (const char* choice :
         {"notification", "fallback", "keys", "addressing", "atomics", "wait", "long_messages"}) {
      EXPECT_NE(fabric["plan"][choice]["choice"], "");
      EXPECT_NE(fabric["plan"][choice]["why"], "");
    }
    EXPECT_TRUE(fabric["provider"] == "shm" || observed["methods"].empty());
    for (const auto& times : observed["methods"]) {
      EXPECT_GT(times["bytes"], 0);
      EXPECT_GT(times["pieces_us"], 0);
      EXPECT_GT(times["write_us"], 0);
    }
    EXPECT_TRUE(observed["pieces_up_to"].is_number());
    EXPECT_EQ(fabric["plan"]["notification"]["choice"],
              immediates ? "write_imm" : "send_after_write");
    if (immediates) {
      EXPECT_THAT(fabric["plan"]["notification"]["why"].get<std::string>(),
                  HasSubstr("proven by the self-test"));
    }
  }
  EXPECT_THAT(passed, IsSupersetOf(kEverywhere));
}

TEST(InvokerFabrics, ListsWithoutTrying) {
  const Finished finished = RunFabrics({"--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.errors;
  const auto document = nlohmann::json::parse(finished.output);
  EXPECT_THAT(ProvidersIn(document), IsSupersetOf(kEverywhere));
  EXPECT_TRUE(document["server"].is_null());
  for (const auto& fabric : document["fabrics"]) EXPECT_TRUE(fabric["observed"].is_null());
  for (const auto& absent : document["absent"]) EXPECT_NE(absent["hint"], "");
}

TEST(InvokerFabrics, KnowsTheInterfaceAndItsLink) {
  const Finished finished = RunFabrics({"--json", "--provider=tcp;ofi_rxm"});
  ASSERT_EQ(finished.exit_code, 0) << finished.errors;
  const auto document = nlohmann::json::parse(finished.output);
  bool seen = false;
  for (const auto& fabric : document["fabrics"]) {
    EXPECT_EQ(fabric["provider"], "tcp;ofi_rxm");
    if (fabric["address"] != "127.0.0.1") continue;
    seen = true;
    EXPECT_EQ(fabric["interface"], "lo");
    EXPECT_EQ(fabric["address_format"], "SOCKADDR_IN");
    EXPECT_GT(fabric["link"]["mtu"], 0);
    EXPECT_EQ(fabric["protocol"], "RXM");
    EXPECT_THAT(fabric["claims"]["capabilities"], Contains("RMA"));
    EXPECT_THAT(fabric["claims"]["transmit_order"], Contains("SAW"));
  }
  EXPECT_TRUE(seen) << finished.output;
}

TEST(InvokerFabrics, IsATableOfModestWidthForPeople) {
  const Finished finished = RunFabrics({"--verify", "--provider=shm"});
  ASSERT_EQ(finished.exit_code, 0) << finished.errors;
  const std::vector<std::string> lines = absl::StrSplit(finished.output, '\n');
  ASSERT_GT(lines.size(), 3u);
  EXPECT_THAT(lines[0], AllOf(StartsWith("PROVIDER"), HasSubstr("NOTIFICATION")));
  EXPECT_THAT(lines[1], AllOf(StartsWith("shm"), HasSubstr("write_imm"), HasSubstr("1 of 1")));
  EXPECT_THAT(finished.output, HasSubstr("proven by the self-test"));
  EXPECT_THAT(finished.output, HasSubstr("not a benchmark"));
  EXPECT_THAT(finished.output, HasSubstr("\n  long messages"));
  EXPECT_THAT(finished.output, Not(HasSubstr("tcp;ofi_rxm (")));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 104u) << line;
}

TEST(InvokerFabrics, SaysWhatAKnownProviderNeeds) {
  const Finished finished = RunFabrics({"--provider=gni"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_EQ(finished.output, "");
  EXPECT_THAT(finished.errors, StartsWith("invoker: error: no RDM endpoint of provider \"gni\""));
  EXPECT_THAT(finished.errors, AllOf(HasSubstr("It needs a Cray"), HasSubstr("there are: net")));
}

TEST(InvokerFabrics, AnUnknownProviderIsToldWhichThereAreAndWhichThereCouldBe) {
  const Finished finished = RunFabrics({"--provider=carrier-pigeon", "--verify"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_EQ(finished.output, "");
  EXPECT_THAT(finished.errors, AllOf(HasSubstr("carrier-pigeon"), HasSubstr("there are: "),
                                     HasSubstr("shm"), HasSubstr("Invoker also knows:"),
                                     HasSubstr("gni: needs"), HasSubstr("fi_info")));
}

TEST(InvokerFabrics, TheDocumentIsWholeEvenWithNothingInIt) {
  const Finished finished = RunFabrics({"--provider=carrier-pigeon", "--json"});
  EXPECT_EQ(finished.exit_code, 1);
  const auto document = nlohmann::json::parse(finished.output);
  EXPECT_THAT(document["fabrics"], SizeIs(0));
  EXPECT_THAT(ProvidersIn(document, "absent"), Contains("gni"));
}

TEST(InvokerFabrics, AFilterThatHidesEverythingIsNamed) {
  const Finished finished = RunFabrics({}, {"FI_PROVIDER=carrier-pigeon"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_EQ(finished.output, "");
  EXPECT_THAT(finished.errors,
              AllOf(HasSubstr("no fabric"), HasSubstr("FI_PROVIDER=carrier-pigeon is set"),
                    HasSubstr("libfabric-bin"), HasSubstr("rdma-core")));
}

TEST(InvokerFabrics, VerifiesAgainstAWorker) {
  auto server = ServerProcess::Start({.provider = "shm"});
  ASSERT_TRUE(server.ok()) << server.status();
  const Finished finished = RunFabrics(
      {"--verify", "--json", "--provider=shm", absl::StrCat("--server=", (*server)->address())});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  const auto document = nlohmann::json::parse(finished.output);
  EXPECT_EQ(document["server"]["address"], (*server)->address());
  ASSERT_THAT(document["server"]["fabrics"], SizeIs(1));
  const auto& fabric = document["server"]["fabrics"][0];
  EXPECT_EQ(fabric["provider"], "shm");
  EXPECT_EQ(fabric["ok"], true) << fabric["error"];
  EXPECT_EQ(fabric["notification"], "write_imm");
  EXPECT_TRUE(fabric["downgrade_reason"].is_null());
  EXPECT_EQ(fabric["round_trips"], 100);

  const Finished other = RunFabrics(
      {"--verify", "--provider=sockets", absl::StrCat("--server=", (*server)->address())});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.output, HasSubstr("failed: "));
  EXPECT_THAT(other.errors, HasSubstr("no fabric of the worker"));
  EXPECT_EQ((*server)->Stop(), 0) << (*server)->log();
}

TEST(InvokerFabrics, AWorkerThatIsNotThereIsStatusThree) {
  const Finished finished = RunFabrics({"--verify", "--provider=shm", "--server=127.0.0.1:1"});
  EXPECT_EQ(finished.exit_code, 3);
  EXPECT_EQ(finished.output, "");
  EXPECT_THAT(finished.errors, AllOf(StartsWith("invoker: error: "), HasSubstr("127.0.0.1:1")));
}

TEST(InvokerFabrics, AServerWantsVerify) {
  const Finished finished = RunFabrics({"--server=127.0.0.1:1"});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.errors, HasSubstr("--verify"));
}

}  // namespace
}  // namespace invoker
