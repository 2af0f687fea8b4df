#include "tests/faults/fault_control.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace invoker::faults {
namespace {

// At the end of a process that was armed by its environment.
void Report() {
  const FaultCounts given = Given();
  std::fprintf(stderr, "faults given: %s\n", given.Text().c_str());
  if (given.harmless() + given.harmful() == 0) {
    std::fprintf(stderr, "faults: none was given, so nothing has been tested\n");
    _Exit(1);
  }
}

// In the file that the environment names, where another process can read them, or in memory.
LiveCounts& MakeCounts() {
  const char* path = getenv(kCountsVariable);
  if (path == nullptr) return *new LiveCounts;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  void* const memory =
      fd < 0 ? MAP_FAILED
             : mmap(nullptr, sizeof(LiveCounts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "faults: cannot map %s\n", path);
    std::abort();
  }
  close(fd);
  return *new (memory) LiveCounts;
}

}  // namespace

FaultControl::FaultControl() : counts(MakeCounts()) {}

FaultControl& FaultControl::Get() {
  static FaultControl* const control = new FaultControl;
  return *control;
}

void FaultControl::Arm(const FaultPlan& plan, uint64_t seed) {
  std::lock_guard<std::mutex> lock(mutex_);
  seed_ = seed;
  objects_ = 0;
  shared_ = Dice(seed, 0);
  const auto [place, inserted] = plans_.insert(std::make_unique<const FaultPlan>(plan));
  plan_.store(place->get(), std::memory_order_release);
}

// A later endpoint may get the address of one of these: it is no victim.
void FaultControl::Disarm() {
  std::lock_guard<std::mutex> lock(mutex_);
  plan_.store(nullptr, std::memory_order_release);
  victims_.clear();
}

void FaultControl::LookAtEnvironment() {
  static std::once_flag once;
  std::call_once(once, [this] {
    const char* name = getenv("INVOKER_FAULT_PLAN");
    if (name == nullptr || *name == '\0') return;
    const std::optional<FaultPlan> plan = FindPlan(name);
    const char* seed_text = getenv("INVOKER_FAULT_SEED");
    uint64_t seed = 1;
    if (!plan.has_value() || (seed_text != nullptr && !absl::SimpleAtoi(seed_text, &seed))) {
      std::fprintf(stderr, "INVOKER_FAULT_PLAN=%s: one of %s; INVOKER_FAULT_SEED: a number\n", name,
                   absl::StrJoin(PlanNames(), ", ").c_str());
      std::abort();
    }
    std::fprintf(stderr, "faults: INVOKER_FAULT_PLAN=%s INVOKER_FAULT_SEED=%llu\n", name,
                 static_cast<unsigned long long>(seed));
    Arm(*plan, seed);
    std::atexit(&Report);
  });
}

Dice FaultControl::NewDice() {
  std::lock_guard<std::mutex> lock(mutex_);
  return Dice(seed_, ++objects_);
}

bool FaultControl::OpeningFails() {
  const FaultPlan* const now = plan();
  if (now == nullptr || now->open_fails == 0) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!shared_.Hits(now->open_fails)) return false;
  ++counts.open_fails;
  return true;
}

bool FaultControl::MappingFails() {
  const FaultPlan* const now = plan();
  if (now == nullptr || now->map_fails == 0) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!shared_.Hits(now->map_fails)) return false;
  ++counts.map_fails;
  return true;
}

void FaultControl::AddVictim(const std::string& raw_address) {
  std::lock_guard<std::mutex> lock(mutex_);
  victims_.insert(raw_address);
}

bool FaultControl::IsVictim(const std::string& raw_address) {
  std::lock_guard<std::mutex> lock(mutex_);
  return victims_.count(raw_address) > 0;
}

bool FaultControl::ClosesLater(fid* object) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closes_later_ || object->fclass == FI_CLASS_MR) return false;
  to_close_.push_back(object);
  return true;
}

void FaultControl::CloseLater() {
  std::lock_guard<std::mutex> lock(mutex_);
  closes_later_ = true;
}

// In the order in which they were to be closed.
void FaultControl::CloseNow() {
  std::vector<fid*> objects;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closes_later_ = false;
    objects.swap(to_close_);
  }
  for (fid* object : objects) object->ops->close(object);
}

std::string FaultCounts::Text() const {
  return absl::StrCat(posts, " posts; again ", again, ", late ", late, ", posts failed ",
                      post_fails, ", completions failed ", completion_fails, ", completions lost ",
                      completions_lost, ", notifications lost ", notifications_lost,
                      ", registrations ", registration_fails, ", inserts ", insert_fails,
                      ", openings ", open_fails, ", mappings ", map_fails);
}

void Arm(const FaultPlan& plan, uint64_t seed) { FaultControl::Get().Arm(plan, seed); }
void Disarm() { FaultControl::Get().Disarm(); }
void CloseLater() { FaultControl::Get().CloseLater(); }
void CloseNow() { FaultControl::Get().CloseNow(); }
bool IsVictim(absl::string_view raw_address) {
  return FaultControl::Get().IsVictim(std::string(raw_address));
}

FaultCounts Given() {
  const LiveCounts& live = FaultControl::Get().counts;
  FaultCounts counts;
  counts.posts = live.posts;
  counts.again = live.again;
  counts.late = live.late;
  counts.post_fails = live.post_fails;
  counts.completion_fails = live.completion_fails;
  counts.completions_lost = live.completions_lost;
  counts.notifications_lost = live.notifications_lost;
  counts.registration_fails = live.registration_fails;
  counts.insert_fails = live.insert_fails;
  counts.open_fails = live.open_fails;
  counts.map_fails = live.map_fails;
  return counts;
}

OpenObjects Open() {
  const LiveCounts& live = FaultControl::Get().counts;
  return {live.endpoints, live.queues, live.vectors, live.regions, live.addresses};
}

}  // namespace invoker::faults
