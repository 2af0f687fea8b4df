// The book of bills: what it measures itself, what it believes executors, and whose sum it keeps.

#include "src/accounting/usage_book.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/log/captured_log.h"

namespace invoker {
namespace {

class Book : public testing::Test {
 protected:
  void Open(UsageBookOptions options = {}) {
    options.clock = [this] { return now_; };
    absl::StatusOr<std::unique_ptr<UsageBook>> book = UsageBook::Open(std::move(options));
    ASSERT_TRUE(book.ok()) << book.status();
    book_ = *std::move(book);
  }

  ResourceUsage UsageOf(absl::string_view tenant) {
    records_ = book_->Records(tenant);
    EXPECT_EQ(records_.size(), 1u);
    return records_.front().usage;
  }

  absl::Duration now_ = absl::Hours(5);
  CapturedLog log_;
  std::unique_ptr<UsageBook> book_;
  std::vector<bootstrap::UsageRecord> records_;
};

UsageReading Reading(uint64_t calls, absl::Duration function, absl::Duration polling) {
  UsageReading reading;
  reading.cpu_time = function + polling;
  reading.calls = calls;
  reading.function_time = function;
  reading.polling_time = polling;
  reading.bytes_in = 10 * calls;
  reading.bytes_out = 100 * calls;
  return reading;
}

TEST_F(Book, TimeAndMemoryAreOfTheBooksOwnClock) {
  Open();
  book_->OpenLease(1, "alice", 3, 1000);
  now_ += absl::Seconds(7);
  EXPECT_EQ(UsageOf("alice").lease_time, absl::Seconds(21));
  EXPECT_EQ(UsageOf("alice").memory_byte_seconds, 21'000u);
  now_ += absl::Seconds(3);
  const ResourceUsage bill = book_->CloseLease(1, UsageReading());
  EXPECT_EQ(bill.lease_time, absl::Seconds(30));
  EXPECT_EQ(bill.memory_byte_seconds, 30'000u);
  now_ += absl::Hours(1);
  EXPECT_EQ(UsageOf("alice").lease_time, absl::Seconds(30)) << "an ended lease costs nothing";
}

TEST_F(Book, PlausibleReadingsAreTakenAsTheyAre) {
  Open();
  book_->OpenLease(1, "alice", 2, 0);
  now_ += absl::Seconds(10);
  book_->Update(1, Reading(5, absl::Seconds(4), absl::Seconds(16)));
  const ResourceUsage usage = UsageOf("alice");
  EXPECT_EQ(usage.calls, 5u);
  EXPECT_EQ(usage.bytes_in, 50u);
  EXPECT_EQ(usage.bytes_out, 500u);
  EXPECT_EQ(usage.function_time, absl::Seconds(4));
  EXPECT_EQ(usage.polling_time, absl::Seconds(16));
  EXPECT_EQ(usage.cpu_time, absl::Seconds(20));
  EXPECT_EQ(book_->implausible(1), 0u);
  EXPECT_TRUE(log_.messages().empty());
}

// An executor whose function has written over its counters.
TEST_F(Book, AReadingThatDecreasesTakesNothingBack) {
  Open();
  book_->OpenLease(1, "mallory", 1, 0);
  now_ += absl::Seconds(10);
  const UsageReading honest = Reading(1000, absl::Seconds(6), absl::Seconds(3));
  book_->Update(1, honest);
  book_->Update(1, UsageReading());
  const ResourceUsage bill = book_->CloseLease(1, UsageReading());
  EXPECT_EQ(bill.calls, honest.calls);
  EXPECT_EQ(bill.function_time, honest.function_time);
  EXPECT_EQ(bill.polling_time, honest.polling_time);
  EXPECT_EQ(bill.bytes_in, honest.bytes_in);
  EXPECT_EQ(bill.bytes_out, honest.bytes_out);
  EXPECT_EQ(bill.cpu_time, honest.cpu_time);
  EXPECT_EQ(bill.lease_time, absl::Seconds(10));
  ASSERT_EQ(log_.messages().size(), 1u) << "each lease is reported once";
  EXPECT_NE(log_.messages()[0].find("mallory"), std::string::npos);
}

// A function may run on 1024 threads at a time.
TEST_F(Book, FunctionAndPollingTimeStayWithinWhatThreadsHave) {
  for (const UsageReading& forged :
       {Reading(1, absl::Hours(9), absl::ZeroDuration()),
        Reading(1, absl::ZeroDuration(), absl::Seconds(23)),
        Reading(1, absl::InfiniteDuration(), absl::InfiniteDuration())}) {
    log_.Clear();
    Open();
    book_->OpenLease(1, "mallory", 2, 0);
    now_ += absl::Seconds(10);
    book_->Update(1, forged);
    EXPECT_EQ(book_->implausible(1), 1u);
    EXPECT_EQ(UsageOf("mallory").function_time,
              std::min(forged.function_time, 1024 * absl::Seconds(20)));
    EXPECT_EQ(UsageOf("mallory").polling_time, std::min(forged.polling_time, absl::Seconds(20)));
    now_ += absl::Seconds(1);
    book_->Update(1, forged);
    const ResourceUsage bill = book_->CloseLease(1, forged);
    EXPECT_EQ(bill.function_time, std::min(forged.function_time, 1024 * absl::Seconds(22)));
    EXPECT_EQ(bill.polling_time, std::min(forged.polling_time, absl::Seconds(22)));
    EXPECT_EQ(log_.messages().size(), 1u);
  }
}

TEST_F(Book, ThreadsOfAFunctionAreNoForgery) {
  Open();
  book_->OpenLease(1, "alice", 1, 0);
  now_ += absl::Seconds(10);
  book_->Update(1, Reading(8, absl::Seconds(80), absl::Seconds(9)));
  EXPECT_EQ(book_->implausible(1), 0u);
  EXPECT_EQ(UsageOf("alice").function_time, absl::Seconds(80));
  EXPECT_TRUE(log_.messages().empty());
}

TEST_F(Book, NoSumBeginsAtZeroAgain) {
  Open();
  UsageReading forged;
  forged.calls = forged.bytes_in = forged.bytes_out = ~uint64_t{0};
  ResourceUsage before;
  for (int i = 0; i < 5; ++i) {
    book_->OpenLease(1, "mallory", 1, 0);
    now_ += absl::Seconds(10);
    const ResourceUsage bill = book_->CloseLease(1, forged);
    EXPECT_GE(bill.calls, 10'000'000'000u);
    const ResourceUsage sum = UsageOf("mallory");
    EXPECT_GT(sum.calls, before.calls);
    EXPECT_GT(sum.bytes_in, before.bytes_in);
    EXPECT_GT(sum.bytes_out, before.bytes_out);
    before = sum;
  }
  EXPECT_EQ(log_.messages().size(), 5u);
}

TEST_F(Book, MonthsOfManyExecutorsAreNoForgery) {
  UsageBookOptions options;
  options.shared_executors = 64;
  Open(std::move(options));
  book_->OpenLease(1, "alice", 0, 0);
  UsageReading reading;
  for (int month = 1; month <= 24; ++month) {
    now_ += absl::Hours(30 * 24);
    reading.calls += 1'000'000;
    reading.bytes_in += uint64_t{1} << 50;
    reading.bytes_out = reading.bytes_in;
    book_->Update(1, reading);
    EXPECT_EQ(UsageOf("alice").bytes_in, reading.bytes_in) << month;
    EXPECT_EQ(UsageOf("alice").bytes_out, reading.bytes_out) << month;
  }
  EXPECT_EQ(book_->implausible(1), 0u);
  EXPECT_TRUE(log_.messages().empty());
  // Nor do sums of what is forged then begin at zero again.
  reading.bytes_in = reading.bytes_out = ~uint64_t{0};
  for (uint64_t lease = 2; lease <= 4; ++lease) {
    book_->OpenLease(lease, "mallory", 0, 0);
    now_ += absl::Hours(30 * 24);
    book_->CloseLease(lease, reading);
    EXPECT_EQ(UsageOf("mallory").bytes_in, ~uint64_t{0});
    EXPECT_EQ(UsageOf("mallory").bytes_out, ~uint64_t{0});
  }
}

TEST_F(Book, ClocksThatDifferALittleAreNoForgery) {
  Open();
  book_->OpenLease(1, "alice", 1, 0);
  now_ += absl::Seconds(10);
  book_->Update(1, Reading(1, absl::Seconds(5), absl::Seconds(10) + absl::Milliseconds(60)));
  EXPECT_EQ(book_->implausible(1), 0u);
  EXPECT_EQ(UsageOf("alice").polling_time, absl::Seconds(10));
}

TEST_F(Book, SharedLeasesAreBoundedByTheServersExecutors) {
  UsageBookOptions options;
  options.shared_executors = 2;
  Open(std::move(options));
  book_->OpenLease(1, "alice", 0, 0);
  now_ += absl::Seconds(10);
  book_->Update(1, Reading(1, absl::Seconds(18), absl::ZeroDuration()));
  const ResourceUsage bill = book_->CloseLease(1, UsageReading());
  EXPECT_EQ(bill.function_time, absl::Seconds(18));
  EXPECT_EQ(bill.lease_time, absl::ZeroDuration()) << "it held no executor";
}

TEST_F(Book, TenantsAreSummedApart) {
  Open();
  for (uint64_t lease = 1; lease <= 6; ++lease) {
    book_->OpenLease(lease, lease % 2 == 0 ? "even" : "odd", 1, 0);
  }
  now_ += absl::Seconds(100);
  for (uint64_t lease = 1; lease <= 4; ++lease) {
    book_->CloseLease(lease, Reading(lease, absl::Seconds(lease), absl::ZeroDuration()));
  }
  const std::vector<bootstrap::UsageRecord> all = book_->Records("");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(all[0].open);
  EXPECT_EQ(all[0].tenant, "odd");
  EXPECT_EQ(all[0].lease, 5u);
  EXPECT_EQ(all[1].tenant, "even");
  EXPECT_EQ(all[1].lease, 6u);
  EXPECT_FALSE(all[2].open);
  EXPECT_EQ(all[2].lease, 0u);
  EXPECT_EQ(all[2].tenant, "even");
  EXPECT_EQ(all[2].usage.calls, 2u + 4);
  EXPECT_EQ(all[3].tenant, "odd");
  EXPECT_EQ(all[3].usage.calls, 1u + 3);
  EXPECT_EQ(book_->Records("odd").size(), 2u);
  EXPECT_TRUE(book_->Records("nobody").empty());
}

TEST_F(Book, ARecordDoesNotTellTheLeasesId) {
  Open();
  book_->OpenLease(0xfeedface12345678u, "alice", 1, 0);
  EXPECT_EQ(book_->Records("").front().lease, 1u);
}

TEST_F(Book, InventedTenantsCostNoMemoryAndLoseNoUsage) {
  UsageBookOptions options;
  options.max_tenants = 3;
  Open(std::move(options));
  for (uint64_t lease = 1; lease <= 100; ++lease) {
    book_->OpenLease(lease, absl::StrCat("tenant", lease), 1, 0);
    now_ += absl::Seconds(1);
    book_->CloseLease(lease, Reading(1, absl::ZeroDuration(), absl::ZeroDuration()));
  }
  const std::vector<bootstrap::UsageRecord> sums = book_->Records("");
  ASSERT_EQ(sums.size(), 4u);
  uint64_t calls = 0;
  for (const bootstrap::UsageRecord& sum : sums) calls += sum.usage.calls;
  EXPECT_EQ(calls, 100u);
  EXPECT_EQ(UsageOf(kOtherTenants).calls, 97u);
}

TEST_F(Book, TotalsNeverDecreaseWhenALeaseEnds) {
  UsageBookOptions options;
  options.max_tenants = 1;
  Open(std::move(options));
  book_->OpenLease(1, "first", 1, 0);
  book_->OpenLease(2, "second", 1, 0);
  now_ += absl::Seconds(10);
  book_->Update(1, Reading(3, absl::Seconds(1), absl::ZeroDuration()));
  book_->Update(2, Reading(4, absl::Seconds(1), absl::ZeroDuration()));
  const auto calls = [this](absl::string_view tenant) {
    for (const UsageBook::TenantTotal& total : book_->Totals()) {
      if (total.tenant == tenant) return total.usage.calls;
    }
    return uint64_t{0};
  };
  EXPECT_EQ(calls("first"), 3u);
  EXPECT_EQ(calls(kOtherTenants), 4u);
  book_->CloseLease(2, UsageReading());
  book_->CloseLease(1, UsageReading());
  EXPECT_EQ(calls("first"), 3u);
  EXPECT_EQ(calls(kOtherTenants), 4u);
}

TEST_F(Book, UnknownLeasesChangeNothing) {
  Open();
  book_->Update(9, Reading(1, absl::Seconds(1), absl::Seconds(1)));
  EXPECT_EQ(book_->CloseLease(9, Reading(1, absl::Seconds(1), absl::Seconds(1))).calls, 0u);
  EXPECT_TRUE(book_->Records("").empty());
  book_->OpenLease(9, "alice", 1, 0);
  now_ += absl::Seconds(1);
  book_->OpenLease(9, "bob", 8, 0);
  EXPECT_EQ(UsageOf("").lease_time, absl::Seconds(1));
  EXPECT_EQ(book_->Records("").front().tenant, "alice");
}

TEST_F(Book, EachEndIsAnnounced) {
  Open();
  int ends = 0;
  book_->set_on_lease_closed([&] { ++ends; });
  book_->OpenLease(1, "alice", 1, 0);
  book_->CloseLease(1, UsageReading());
  book_->CloseLease(1, UsageReading());
  EXPECT_EQ(ends, 1);
}

TEST(BookThreads, EveryCallIsBilledOnce) {
  absl::StatusOr<std::unique_ptr<UsageBook>> book = UsageBook::Open({});
  ASSERT_TRUE(book.ok());
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kLeases = 200;
  std::atomic<bool> done{false};
  std::atomic<uint64_t> looks{0};
  std::thread reader([&] {
    uint64_t last = 0;
    while (!done) {
      uint64_t calls = 0;
      for (const UsageBook::TenantTotal& total : (*book)->Totals()) calls += total.usage.calls;
      EXPECT_GE(calls, last);
      last = calls;
      ++looks;
    }
  });
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kLeases; ++i) {
        const uint64_t lease = t * kLeases + i + 1;
        (*book)->OpenLease(lease, absl::StrCat("tenant", i % 3), 1, 0);
        UsageReading reading;
        for (uint64_t calls = 1; calls <= 10; ++calls) {
          reading.calls = calls;
          (*book)->Update(lease, reading);
        }
        EXPECT_EQ((*book)->CloseLease(lease, reading).calls, 10u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (looks == 0) std::this_thread::yield();
  done = true;
  reader.join();
  uint64_t calls = 0;
  for (const UsageBook::TenantTotal& total : (*book)->Totals()) calls += total.usage.calls;
  EXPECT_EQ(calls, kThreads * kLeases * 10);
}

}  // namespace
}  // namespace invoker
