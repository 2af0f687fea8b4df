// Leases between the real client and the real server.

#include "src/bootstrap/client/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "src/bootstrap/service/server.h"
#include "tests/bootstrap/fake_host.h"

namespace invoker::bootstrap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Events as lines, with a wait for each.
class EventLog {
 public:
  LeaseEvents Events() {
    LeaseEvents events;
    events.on_queued = [this](uint32_t ahead) { Add(absl::StrCat("queued ", ahead)); };
    events.on_ended = [this](const LeaseEnd& end) {
      Add(absl::StrCat("ended ", end.reason, " calls ", end.usage.calls));
    };
    events.on_lost = [this](absl::Status status) { Add(absl::StrCat("lost ", status.ToString())); };
    events.on_draining = [this](absl::string_view reason) {
      Add(absl::StrCat("draining ", reason));
    };
    events.on_session_closed = [this](uint64_t handle, absl::string_view reason) {
      Add(absl::StrCat("closed ", handle, " ", reason));
    };
    return events;
  }

  // The nth line, or "" if it does not come.
  std::string Line(size_t n, absl::Duration patience = kPatience) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, absl::ToChronoSeconds(patience), [&] { return lines_.size() > n; });
    return lines_.size() > n ? lines_[n] : "";
  }
  size_t Size() {
    std::lock_guard<std::mutex> lock(mutex_);
    return lines_.size();
  }

 private:
  void Add(std::string line) {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

class LeaseTest : public ::testing::Test {
 protected:
  void Start(absl::Duration heartbeat = absl::Seconds(1), absl::Duration expiry = kPatience) {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.heartbeat_interval = heartbeat;
    options.lease_expiry = expiry;
    auto server = Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = BootstrapClient::Connect(server_->listen_address(), kPatience);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    auto lease = Lease::Acquire(client_.get(), {}, log_.Events(), kPatience);
    ASSERT_TRUE(lease.ok()) << lease.status();
    lease_ = *std::move(lease);
    closed_ = absl::StrCat("close_lease ", lease_->id());
  }

  FakeHost host_;
  EventLog log_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<BootstrapClient> client_;
  std::unique_ptr<Lease> lease_;
  std::string closed_;
};

TEST_F(LeaseTest, AReleasedLeaseIsClosedOnceAndNotReportedAsLost) {
  Start();
  EXPECT_NE(lease_->id(), 0u);
  lease_.reset();
  EXPECT_TRUE(host_.WaitFor(closed_));
  server_->Stop();
  EXPECT_EQ(host_.Count(closed_), 1);
  EXPECT_EQ(log_.Size(), 0u);
}

TEST_F(LeaseTest, ALeaseMayOutliveItsClient) {
  Start();
  client_.reset();
  server_->NotifySessionClosed(lease_->id(), 1, "still heard");
  EXPECT_EQ(log_.Line(0), "closed 1 still heard");
}

TEST_F(LeaseTest, HeartbeatsKeepTheLeaseBeyondItsExpiry) {
  Start(absl::Milliseconds(20), absl::Seconds(2));
  EXPECT_EQ(log_.Line(0, absl::Seconds(3)), "");
  EXPECT_EQ(host_.Count(closed_), 0);
  EXPECT_TRUE(client_->OpenSession(lease_->id(), SampleRequest(), kPatience).ok());
}

TEST_F(LeaseTest, TheClientLearnsOfDrainingClosedSessionsAndTheEndInOrder) {
  Start();
  server_->Drain("upgrade");
  server_->NotifySessionClosed(lease_->id(), 42, "the executor died");
  server_->Stop();
  EXPECT_EQ(log_.Line(0), "draining upgrade");
  EXPECT_EQ(log_.Line(1), "closed 42 the executor died");
  EXPECT_EQ(log_.Line(2), absl::StrCat("ended the server is stopping calls ", SampleUsage().calls));
  EXPECT_THAT(log_.Line(3), AllOf(HasSubstr("lost UNAVAILABLE"), HasSubstr("is stopping"),
                                  HasSubstr(server_->listen_address())));
  lease_.reset();
  EXPECT_EQ(log_.Size(), 4u);
  EXPECT_EQ(host_.Count(closed_), 1);
}

TEST_F(LeaseTest, EachOfManyLeasesIsClosedOnce) {
  Start();
  std::vector<std::unique_ptr<Lease>> leases;
  std::vector<std::string> closed;
  for (int i = 0; i < 40; ++i) {
    auto lease = Lease::Acquire(client_.get(), {}, {}, kPatience);
    ASSERT_TRUE(lease.ok()) << lease.status();
    closed.push_back(absl::StrCat("close_lease ", (*lease)->id()));
    leases.push_back(*std::move(lease));
  }
  leases.resize(20);
  for (int i = 20; i < 40; ++i) EXPECT_TRUE(host_.WaitFor(closed[i]));
  server_->Stop();
  for (const std::string& each : closed) EXPECT_EQ(host_.Count(each), 1);
}

TEST_F(LeaseTest, ALeaseThatEndsDuringARequestIsClosedAfterIt) {
  absl::Notification inside, go_on;
  host_.in_open = [&] {
    inside.Notify();
    go_on.WaitForNotification();
  };
  Start();
  const uint64_t id = lease_->id();
  std::thread opener(
      [&] { EXPECT_TRUE(client_->OpenSession(id, SampleRequest(), kPatience).ok()); });
  inside.WaitForNotification();
  lease_.reset();
  // Once another lease has been opened and closed after it, the first one's end has been seen.
  auto other = Lease::Acquire(client_.get(), {}, {}, kPatience);
  ASSERT_TRUE(other.ok()) << other.status();
  const std::string other_closed = absl::StrCat("close_lease ", (*other)->id());
  other->reset();
  EXPECT_TRUE(host_.WaitFor(other_closed));
  EXPECT_EQ(host_.Count(closed_), 0);
  go_on.Notify();
  opener.join();
  EXPECT_TRUE(host_.WaitFor(closed_));
  const std::vector<std::string> calls = host_.Calls();
  EXPECT_EQ(calls.back(), closed_);
  EXPECT_EQ(calls[calls.size() - 2], absl::StrCat("open ", id));
}

TEST_F(LeaseTest, AReleaseBringsTheBillAndNoEvent) {
  Start();
  const absl::StatusOr<LeaseEnd> end = lease_->Release(kPatience);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->cause, LeaseEndCause::kReleased);
  EXPECT_EQ(end->usage.lease_time, SampleUsage().lease_time);
  EXPECT_EQ(end->usage.cpu_time, SampleUsage().cpu_time);
  EXPECT_EQ(end->usage.memory_byte_seconds, SampleUsage().memory_byte_seconds);
  EXPECT_EQ(end->usage.calls, SampleUsage().calls);
  EXPECT_EQ(end->usage.function_time, SampleUsage().function_time);
  EXPECT_EQ(end->usage.polling_time, SampleUsage().polling_time);
  EXPECT_EQ(end->usage.bytes_in, SampleUsage().bytes_in);
  EXPECT_EQ(end->usage.bytes_out, SampleUsage().bytes_out);
  EXPECT_EQ(host_.Count(closed_), 1);
  const absl::StatusOr<LeaseEnd> again = lease_->Release(kPatience);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->usage.calls, SampleUsage().calls);
  lease_.reset();
  EXPECT_EQ(log_.Size(), 0u);
}

TEST_F(LeaseTest, ABillThatDoesNotComeInTimeIsAnError) {
  absl::Notification go_on;
  host_.in_close = [&go_on] { go_on.WaitForNotification(); };
  Start();
  EXPECT_EQ(lease_->Release(absl::Milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  go_on.Notify();
  EXPECT_TRUE(lease_->Release(kPatience).ok());
}

TEST_F(LeaseTest, TheClientWaitsInLineAndHearsItsPlaceTheGrantAndTheCrash) {
  Start();
  LeaseTerms terms;
  terms.executors = 2;
  terms.wait = absl::InfiniteDuration();
  terms.tenant = "biology";
  EventLog log;
  std::unique_ptr<Lease> lease;
  std::thread asker([&] {
    auto acquired = Lease::Acquire(client_.get(), terms, log.Events(), kPatience);
    EXPECT_TRUE(acquired.ok()) << acquired.status();
    if (acquired.ok()) lease = *std::move(acquired);
  });
  ASSERT_TRUE(host_.WaitFor("open_lease 2 biology"));
  const auto observer = host_.ObserverOf(host_.LastAsked());
  observer->OnQueued(1);
  observer->OnQueued(0);
  EXPECT_EQ(log.Line(1), "queued 0");
  LeaseTerms granted = terms;
  granted.ttl = absl::Seconds(100);
  granted.memory_bytes = 12345;
  observer->OnGranted(granted);
  asker.join();
  ASSERT_NE(lease, nullptr);
  EXPECT_EQ(lease->id(), host_.LastAsked());
  EXPECT_EQ(lease->terms().executors, 2u);
  EXPECT_EQ(lease->terms().ttl, absl::Seconds(100));
  EXPECT_EQ(lease->terms().memory_bytes, 12345u);
  EXPECT_EQ(lease->terms().wait, absl::InfiniteDuration());
  LeaseEnd end;
  end.cause = LeaseEndCause::kCrashed;
  end.reason = "executor 1 of 2: signal 11";
  observer->OnEnded(end);
  EXPECT_EQ(log.Line(0), "queued 1");
  EXPECT_EQ(log.Line(2),
            absl::StrCat("ended executor 1 of 2: signal 11 calls ", SampleUsage().calls));
  EXPECT_THAT(log.Line(3), AllOf(HasSubstr("lost ABORTED"), HasSubstr("signal 11")));
  const absl::StatusOr<LeaseEnd> bill = lease->Release(kPatience);
  ASSERT_TRUE(bill.ok()) << bill.status();
  EXPECT_EQ(bill->cause, LeaseEndCause::kCrashed);
}

TEST_F(LeaseTest, ARefusalSaysWhatTheHostSaid) {
  Start();
  LeaseTerms terms;
  terms.executors = 2;
  absl::Status status;
  std::thread asker([&] { status = Lease::Acquire(client_.get(), terms, {}, kPatience).status(); });
  ASSERT_TRUE(host_.WaitFor("open_lease 2 "));
  host_.ObserverOf(host_.LastAsked())->OnGranted(absl::ResourceExhaustedError("1 core is free"));
  asker.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1 core is free"), HasSubstr(server_->listen_address())));
}

}  // namespace
}  // namespace invoker::bootstrap
