// Endpoints whose listeners have stopped, and executors that only look like it.

#include "src/invoke/worker/endpoint_watch.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"
#include "tests/invoke/session_pair.h"
#include "tests/transport/immediates.h"

namespace invoker {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

int OptionOf(int descriptor, int option) {
  int value = 0;
  socklen_t length = sizeof(value);
  return getsockopt(descriptor, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

// The sockets of this process that listen, or that receive datagrams.
std::vector<int> Receivers() {
  std::vector<int> receivers;
  DIR* const directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int descriptor = atoi(entry->d_name);
    if (OptionOf(descriptor, SO_ACCEPTCONN) == 1 || OptionOf(descriptor, SO_TYPE) == SOCK_DGRAM) {
      receivers.push_back(descriptor);
    }
  }
  closedir(directory);
  return receivers;
}

uint16_t PortOf(const sockaddr_in& address) { return ntohs(address.sin_port); }

// Nothing of a new peer arrives any more at the port of this endpoint. A listener accepts no
// connection, and those that there are go on. A socket that receives datagrams takes those of
// another port alone. False if there is no such socket.
bool StopListener(const std::string& endpoint_address) {
  sockaddr_in wanted = {};
  memcpy(&wanted, endpoint_address.data(), std::min(sizeof(wanted), endpoint_address.size()));
  for (const int receiver : Receivers()) {
    sockaddr_in bound = {};
    socklen_t length = sizeof(bound);
    getsockname(receiver, reinterpret_cast<sockaddr*>(&bound), &length);
    if (PortOf(bound) != PortOf(wanted)) continue;
    if (OptionOf(receiver, SO_TYPE) != SOCK_DGRAM) return shutdown(receiver, SHUT_RDWR) == 0;
    sockaddr_in other = bound;
    other.sin_port = htons(9);  // the port "discard"
    return connect(receiver, reinterpret_cast<const sockaddr*>(&other), sizeof(other)) == 0;
  }
  return false;
}

// Collects the notes of a watch.
class Notes {
 public:
  void Add(absl::string_view note) {
    absl::MutexLock lock(&mutex_);
    notes_.emplace_back(note);
  }
  // The first; "" if none comes.
  std::string Await() {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !notes_.empty(); };
    return mutex_.AwaitWithTimeout(absl::Condition(&any), kPatience) ? notes_.front() : "";
  }
  size_t count() {
    absl::MutexLock lock(&mutex_);
    return notes_.size();
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
};

// Checks without a pause, and with little patience.
WorkerOptions WatchedOptions() {
  WorkerOptions options;
  options.endpoint_watch.period = absl::Milliseconds(10);
  options.endpoint_watch.patience = absl::Milliseconds(500);
  options.endpoint_watch.least_turns = 16;
  return options;
}

class EndpointWatchTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!DiscoverLoopback(GetParam()).ok()) GTEST_SKIP() << "not in this libfabric";
  }

  void Watch(ServedWorker* served) {
    served->worker->set_on_endpoint([this](absl::string_view note) { notes_.Add(note); });
  }

  // A session for a client that never calls, without a lease.
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSilent(Worker* worker) {
    client_ = OpenReactor(GetParam());
    ClientSession::Options options;
    options.window_bytes = 4096;
    session_ = *ClientSession::Create(client_.get(), options);
    bootstrap::OpenSessionRequest request =
        session_->MakeRequest(transport::StrongestOn(GetParam()));
    request.fabric = worker->Info().fabrics[0].identity;
    return worker->OpenSession(1, request);
  }

  Notes notes_;
  std::unique_ptr<transport::Reactor> client_;
  std::unique_ptr<ClientSession> session_;
};

std::string NameOfFabric(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ';', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Fabrics, EndpointWatchTest,
                         testing::Values("tcp;ofi_rxm", "tcp", "net", "sockets"), NameOfFabric);

// Fabrics without connections, too, which are checked only where there is reason to.
class DoubtTest : public EndpointWatchTest {};

INSTANTIATE_TEST_SUITE_P(Fabrics, DoubtTest,
                         testing::Values("tcp;ofi_rxm", "tcp", "net", "sockets", "udp;ofi_rxd"),
                         NameOfFabric);

TEST_P(EndpointWatchTest, AnEndpointWhoseListenerHasStoppedIsReplaced) {
  ServedWorker served(GetParam(), WatchedOptions());
  Watch(&served);
  const auto opened = OpenSilent(served.worker.get());
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_TRUE(StopListener(opened->endpoint_address));
  const std::string note = notes_.Await();
  EXPECT_TRUE(absl::StrContains(note, "answers no new peer")) << note;
  EXPECT_TRUE(absl::StrContains(note, GetParam())) << note;
  EXPECT_TRUE(absl::StrContains(note, "its 1 end")) << note;
  const std::unique_ptr<Client> client = served.Connect();
  ASSERT_NE(client, nullptr);
  const absl::StatusOr<Response> response = client->Invoke(Find(*client, "echo"), "after");
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->text(), "after");
  EXPECT_EQ(notes_.count(), 1u);
}

// The endpoint lets in no new peer, and serves the one that it has: it is not dead.
TEST_P(EndpointWatchTest, ASessionWhoseRequestsArriveStays) {
  ServedWorker served(GetParam(), WatchedOptions());
  Watch(&served);
  const auto opened = OpenSilent(served.worker.get());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::unique_ptr<Client> before = served.Connect();
  ASSERT_NE(before, nullptr);
  ASSERT_TRUE(StopListener(opened->endpoint_address));
  const absl::Time give_up = absl::Now() + kPatience;
  while (notes_.count() == 0 && absl::Now() < give_up) {
    ASSERT_TRUE(before->Invoke(Find(*before, "echo"), "before").ok());
  }
  const std::string note = notes_.Await();
  EXPECT_TRUE(absl::StrContains(note, "its 2 stay")) << note;
  const std::unique_ptr<Client> after = served.Connect();
  ASSERT_NE(after, nullptr);
  for (Client* client : {before.get(), after.get()}) {
    const absl::StatusOr<Response> response = client->Invoke(Find(*client, "echo"), "after");
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->text(), "after");
  }
}

TEST_P(EndpointWatchTest, AnEndpointNobodyUsesIsCheckedToo) {
  ServedWorker served(GetParam(), WatchedOptions());
  Watch(&served);
  std::string address;
  {
    const auto opened = OpenSilent(served.worker.get());
    ASSERT_TRUE(opened.ok()) << opened.status();
    address = opened->endpoint_address;
    ASSERT_TRUE(served.worker->CloseSession(1, opened->handle).ok());
  }
  ASSERT_TRUE(StopListener(address));
  EXPECT_TRUE(absl::StrContains(notes_.Await(), "its 0 end"));
}

TEST_P(EndpointWatchTest, AnExecutorThatRunsAFunctionIsNotTakenForLost) {
  ServedWorker served(GetParam(), WatchedOptions());
  Watch(&served);
  const std::unique_ptr<Client> client = served.Connect();
  ASSERT_NE(client, nullptr);
  Future long_call = client->InvokeAsync(Find(*client, "gate"), "");
  served.functions.entered.WaitForNotification();
  // Longer than two checks have patience, and the function is still running.
  absl::SleepFor(absl::Seconds(2));
  served.functions.open.Notify();
  EXPECT_TRUE(long_call.Get().ok());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(client->Invoke(Find(*client, "echo"), "short").ok());
  }
  EXPECT_EQ(notes_.count(), 0u) << notes_.Await();
}

// Without a period to speak of: a session from which nothing has come is what starts the check.
TEST_P(DoubtTest, ASessionThatNothingCameFromIsReasonEnough) {
  WorkerOptions options = WatchedOptions();
  options.endpoint_watch.period = absl::Hours(1);
  ServedWorker served(GetParam(), options);
  Watch(&served);
  const auto opened = OpenSilent(served.worker.get());
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_TRUE(StopListener(opened->endpoint_address));
  ASSERT_TRUE(served.worker->CloseSession(1, opened->handle).ok());
  EXPECT_TRUE(absl::StrContains(notes_.Await(), "answers no new peer"));
}

}  // namespace
}  // namespace invoker
