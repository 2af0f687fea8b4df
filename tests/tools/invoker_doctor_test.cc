// `invoker doctor`: what it finds on machines of every kind, and the page as a user sees it.

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tests/integration/child_process.h"
#include "tests/integration/server_process.h"
#include "tests/security/test_files.h"
#include "tools/doctor/credentials.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"

namespace invoker::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A machine's files below a folder of this test's own.
class DoctorTest : public testing::Test {
 protected:
  DoctorTest()
      : root_(testing::TempDir() + "/" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    for (const char* name : {"INVOKER_LIBFABRIC", "LD_LIBRARY_PATH", "FI_TCP_PORT_LOW_RANGE",
                             "FI_TCP_PORT_HIGH_RANGE"}) {
      unsetenv(name);
    }
  }
  ~DoctorTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const std::string root_;
};

TEST_F(DoctorTest, TheLibfabricInUseAndWhy) {
  const auto text = [](const std::string& path, const std::string& others = "") {
    return ExamineLibfabric("7f00-7f01 r--p 0 fd:00 1    " + path + "\n" + others, "2.1").text;
  };
  const std::string choice = "7f02-7f03 r--p 0 fd:00 1 /v/libfabric-choice-invoker.so.1\n";
  EXPECT_THAT(text("/usr/lib/libfabric.so.1.27.0"),
              HasSubstr("2.1 from /usr/lib/libfabric.so.1.27.0"));
  EXPECT_THAT(text("/v/invoker.libs/libfabric-bundled-12345678.so.1"),
              HasSubstr("the wheel's own"));
  setenv("LD_LIBRARY_PATH", "/other:/opt/fabric/lib/", 1);
  EXPECT_THAT(text("/opt/fabric/lib/libfabric.so.1"), HasSubstr("LD_LIBRARY_PATH names it"));
  EXPECT_THAT(text("/usr/lib/libfabric.so.1.99.0", choice),
              HasSubstr("newer than the wheel's own"));
  setenv("INVOKER_LIBFABRIC", "/opt/fabric", 1);
  EXPECT_THAT(text("/opt/fabric/libfabric.so.1", choice),
              HasSubstr("INVOKER_LIBFABRIC is /opt/fabric"));
  EXPECT_THAT(text("/usr/lib/libfabric.so.1"), Not(HasSubstr("INVOKER_LIBFABRIC")));
  // The library that chooses is none.
  EXPECT_EQ(ExamineLibfabric("7f00 /v/libfabric-choice-invoker.so.1\n7f02 [heap]\n", "").kind,
            FindingKind::kProblem);
}

TEST_F(DoctorTest, LockedMemoryMattersToDevices) {
  EXPECT_EQ(ExamineLockedMemory({}, true).kind, FindingKind::kOk);
  EXPECT_EQ(ExamineLockedMemory(1u << 30, true).kind, FindingKind::kOk);
  EXPECT_EQ(ExamineLockedMemory(64 << 10, false).kind, FindingKind::kOk);
  const Finding finding = ExamineLockedMemory(64 << 10, true);
  EXPECT_EQ(finding.kind, FindingKind::kProblem);
  EXPECT_THAT(finding.text, HasSubstr("65536 bytes"));
  EXPECT_THAT(finding.help, HasSubstr("ulimit -l unlimited"));
}

TEST_F(DoctorTest, HugePages) {
  Write("/proc/meminfo", "MemTotal: 5 kB\nHugePages_Total:      12\nHugePages_Free: 3\n");
  Write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(ExamineHugePages(root_).kind, FindingKind::kOk);
  EXPECT_THAT(ExamineHugePages(root_).text, HasSubstr("reserved: 12; transparent: madvise"));
  Write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_EQ(ExamineHugePages(root_).kind, FindingKind::kNote);
  EXPECT_EQ(ExamineHugePages(root_ + "/nowhere").kind, FindingKind::kNote);
}

TEST_F(DoctorTest, ControlGroups) {
  EXPECT_EQ(ExamineControlGroups(root_).kind, FindingKind::kNote) << "there are none";
  Write("/proc/self/cgroup", "0::/service\n");
  Write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  Write("/sys/fs/cgroup/service/cgroup.controllers", "cpu memory pids\n");
  EXPECT_EQ(ExamineControlGroups(root_).kind, FindingKind::kOk) << ExamineControlGroups(root_).text;
  Write("/sys/fs/cgroup/service/cgroup.controllers", "cpu pids\n");
  const Finding finding = ExamineControlGroups(root_);
  EXPECT_EQ(finding.kind, FindingKind::kNote);
  EXPECT_THAT(finding.text, HasSubstr("/sys/fs/cgroup/service has no controller memory"));
  EXPECT_THAT(finding.help, HasSubstr("Delegate=yes"));
}

TEST_F(DoctorTest, TheClock) {
  const std::string file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  Write(file, "tsc\n");
  EXPECT_EQ(ExamineClock(root_)[0].kind, FindingKind::kOk);
  Write(file, "hpet\n");
  EXPECT_EQ(ExamineClock(root_)[0].kind, FindingKind::kNote);
  EXPECT_THAT(ExamineClock(root_)[0].text, HasSubstr("hpet"));
}

TEST_F(DoctorTest, Ports) {
  Write("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
  EXPECT_THAT(ExaminePorts(root_).text, HasSubstr("32768 to 60999"));
  setenv("FI_TCP_PORT_LOW_RANGE", "5000", 1);
  setenv("FI_TCP_PORT_HIGH_RANGE", "5100", 1);
  EXPECT_THAT(ExaminePorts(root_).text, HasSubstr("5000 to 5100"));
}

TEST_F(DoctorTest, CertificatesHaveDates) {
  const security::TestFiles files;
  const security::TestAuthority authority(&files, "ca");
  const security::IssuedFiles issued = authority.Issue("client");
  ClientCredentials credentials;
  credentials.tls_ca = authority.file();
  credentials.tls_cert = issued.certificate;
  credentials.tls_key = issued.key;
  const auto kind_at = [&](absl::Time time) {
    const std::vector<Finding> findings = ExamineCredentials(credentials, time);
    EXPECT_EQ(findings.back().subject, "certificate");
    EXPECT_THAT(findings.back().text, HasSubstr("CN = server"));
    return findings.back().kind;
  };
  EXPECT_EQ(kind_at(absl::Now()), FindingKind::kNote) << "an hour is left";
  EXPECT_EQ(kind_at(absl::Now() + absl::Hours(2)), FindingKind::kProblem);
  EXPECT_EQ(kind_at(absl::Now() - absl::Hours(2)), FindingKind::kProblem);
  credentials.tls_key = files.Write("broken.key", "no key");
  EXPECT_THAT(ExamineCredentials(credentials, absl::Now())[0].text, HasSubstr("broken.key"));
  credentials = {};
  credentials.token_file = files.PathOf("missing");
  EXPECT_EQ(ExamineCredentials(credentials, absl::Now()).back().kind, FindingKind::kProblem);
}

TEST_F(DoctorTest, AWorkersCertificatesHaveDatesToo) {
  const security::TestFiles files;
  const security::TestAuthority authority(&files, "ca");
  const security::IssuedFiles issued = authority.Issue("server");
  EXPECT_TRUE(ExamineServersFile(files.PathOf("missing.conf"), absl::Now()).empty());
  const std::string path =
      files.Write("server.conf", "listen = 0.0.0.0:7000\ntls-cert = " + issued.certificate + "\n");
  const std::vector<Finding> findings = ExamineServersFile(path, absl::Now() + absl::Hours(2));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, FindingKind::kProblem);
  EXPECT_THAT(findings[0].text, HasSubstr(issued.certificate));
  EXPECT_THAT(ExamineServersFile(files.Write("broken.conf", "listen\n"), absl::Now())[0].text,
              HasSubstr("broken.conf:1"));
}

TEST_F(DoctorTest, ThePageSaysHowManyProblemsThereAre) {
  std::vector<Finding> findings = {{FindingKind::kOk, "one", "fine"}};
  EXPECT_THAT(FindingsAsText("1.2.3", findings), HasSubstr("no problems"));
  findings.push_back({FindingKind::kProblem, "two", "broken", "mend it"});
  const std::string page = FindingsAsText("1.2.3", findings);
  EXPECT_THAT(page, HasSubstr("Invoker 1.2.3"));
  EXPECT_THAT(page, HasSubstr("problem  two           broken\n                       mend it\n"));
  EXPECT_THAT(page, HasSubstr("problems: 1"));
  const nlohmann::json json = nlohmann::json::parse(FindingsAsJson("1.2.3", findings));
  EXPECT_FALSE(json["ok"]);
  EXPECT_EQ(json["findings"][1]["help"], "mend it");
  EXPECT_TRUE(json["findings"][0]["help"].is_null());
}

Finished RunDoctor(std::vector<std::string> arguments, std::vector<std::string> environment) {
  arguments.insert(arguments.begin(), {"tools/invoker", "doctor", "--json"});
  return RunToEnd({.command = arguments, .environment = environment});
}

std::string TextsOf(const nlohmann::json& page, const std::string& subject) {
  std::string texts;
  for (const auto& finding : page["findings"]) {
    if (finding["subject"] == subject) absl::StrAppend(&texts, std::string(finding["text"]), "\n");
  }
  return texts;
}

TEST_F(DoctorTest, AServerIsAskedToo) {
  ServerProcessOptions options;
  options.provider = "tcp;ofi_rxm";
  auto server = ServerProcess::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const Finished done = RunDoctor({"--server=" + (*server)->address()}, {"FI_PROVIDER"});
  EXPECT_EQ(done.exit_code, 0) << done.output << done.errors;
  const nlohmann::json page = nlohmann::json::parse(done.output);
  EXPECT_TRUE(page["ok"]);
  EXPECT_THAT(TextsOf(page, "fabric"), HasSubstr("tcp;ofi_rxm is offered"));
  EXPECT_THAT(TextsOf(page, "server"), HasSubstr("both speak version"));
  EXPECT_THAT(TextsOf(page, "its fabrics"), HasSubstr("tcp;ofi_rxm: a round trip takes"));
}

TEST_F(DoctorTest, ProblemsMakeItsExitStatus) {
  const Finished no_server = RunDoctor({"--server=127.0.0.1:1", "--connect-timeout=1s"}, {});
  EXPECT_EQ(no_server.exit_code, 1);
  EXPECT_THAT(TextsOf(nlohmann::json::parse(no_server.output), "server"), HasSubstr("127.0.0.1:1"));
  const Finished no_fabric = RunDoctor({}, {"FI_PROVIDER=none_such"});
  EXPECT_EQ(no_fabric.exit_code, 1);
  const nlohmann::json page = nlohmann::json::parse(no_fabric.output);
  EXPECT_FALSE(page["ok"]);
  EXPECT_THAT(TextsOf(page, "fabrics"), HasSubstr("none works"));
  EXPECT_THAT(TextsOf(page, "variable"), HasSubstr("FI_PROVIDER=none_such"));
}

}  // namespace
}  // namespace invoker::tools
