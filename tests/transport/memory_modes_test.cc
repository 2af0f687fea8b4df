// Registration under every combination of what a provider may demand of it. A real domain's
// registration call is replaced by one that keeps to the demands of fi_mr(3) and takes note of what
// it is asked.

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/transport/fabric/memory_region.h"
#include "tests/transport/faults.h"
#include "tests/transport/local_fabric.h"

namespace invoker::transport {
namespace {

using testing::HasSubstr;

constexpr size_t kBytes = 3 * 4096;
constexpr uint64_t kProviderKey = 0x51a7e5;

// Whether every page of the memory is there.
bool IsPopulated(const void* memory, size_t size) {
  std::vector<unsigned char> pages(size / static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  if (mincore(const_cast<void*>(memory), size, pages.data()) != 0) return false;
  for (unsigned char page : pages) {
    if ((page & 1) == 0) return false;
  }
  return true;
}

// In place of a domain's registrations, with the memory modes `demands`.
class Registrar {
 public:
  struct Region {
    fid_mr mr = {};  // first: libfabric's calls hand it back
    Registrar* registrar = nullptr;
    uint64_t access = 0;
    uint64_t flags = 0;
    uint64_t requested_key = 0;
    bool was_populated = false;
    bool closed = false;
    std::vector<std::string> steps;  // bind, enable
    fid* bound_to = nullptr;
  };

  Registrar(fid_domain* domain, int demands) : demands_(demands), table_(&domain->mr, this) {
    table_.ours().reg = &Register;
    operations_.size = sizeof(operations_);
    operations_.close = &Close;
    operations_.bind = &Bind;
    operations_.control = &Control;
  }

  // What the next calls return, one each; then 0.
  std::vector<int> register_results;
  int bind_result = 0;
  int enable_result = 0;
  bool has_keys = true;

  std::vector<std::unique_ptr<Region>> regions;

 private:
  using Table = ReplacedOps<fi_ops_mr, Registrar>;

  static int Register(fid* domain, const void* memory, size_t size, uint64_t access,
                      uint64_t offset, uint64_t key, uint64_t flags, fid_mr** mr, void*) {
    Registrar& self = Table::From(reinterpret_cast<fid_domain*>(domain)->mr);
    EXPECT_EQ(offset, 0u);
    auto region = std::make_unique<Region>();
    region->registrar = &self;
    region->access = access;
    region->flags = flags;
    region->requested_key = key;
    region->was_populated = IsPopulated(memory, size);
    region->mr.fid.fclass = FI_CLASS_MR;
    region->mr.fid.ops = &self.operations_;
    region->mr.mem_desc = region.get();
    const bool starts_enabled = (self.demands_ & FI_MR_ENDPOINT) == 0 && flags == 0;
    region->mr.key = FI_KEY_NOTAVAIL;
    if (starts_enabled) self.GiveKey(region.get());
    int result = 0;
    if (!self.register_results.empty()) {
      result = self.register_results.front();
      self.register_results.erase(self.register_results.begin());
    }
    if (result == 0) *mr = &region->mr;
    self.regions.push_back(std::move(region));
    return result;
  }

  static int Bind(fid* mr, fid* endpoint, uint64_t) {
    auto* region = reinterpret_cast<Region*>(mr);
    region->steps.push_back("bind");
    region->bound_to = endpoint;
    return region->registrar->bind_result;
  }

  static int Control(fid* mr, int command, void*) {
    auto* region = reinterpret_cast<Region*>(mr);
    EXPECT_EQ(command, FI_ENABLE);
    region->steps.push_back("enable");
    if (region->registrar->enable_result == 0) region->registrar->GiveKey(region);
    return region->registrar->enable_result;
  }

  static int Close(fid* mr) {
    reinterpret_cast<Region*>(mr)->closed = true;
    return 0;
  }

  void GiveKey(Region* region) {
    if (!has_keys) return;
    region->mr.key = (demands_ & FI_MR_PROV_KEY) != 0 ? kProviderKey : region->requested_key;
  }

  int demands_;
  fi_ops operations_ = {};
  Table table_;
};

struct Demands {
  int modes = 0;
  size_t key_bytes = 8;
  bool events = true;  // FI_RMA_EVENT is granted
};

// A fabric whose provider demands something else than the one below it.
std::unique_ptr<LocalFabric> OpenWith(const Demands& demands) {
  FabricRequest request;
  request.provider = "shm";
  absl::StatusOr<FabricChoice> choice = Discover(request);
  if (!choice.ok()) return nullptr;
  const InfoPtr info(fi_dupinfo(choice->info.get()));
  info->domain_attr->mr_mode = demands.modes;
  info->domain_attr->mr_key_size = demands.key_bytes;
  info->caps &= ~FI_RMA_EVENT;
  if (demands.events) info->caps |= FI_RMA_EVENT;
  absl::StatusOr<Profile> profile = Resolve(FindRow("shm"), *info);
  EXPECT_TRUE(profile.ok()) << profile.status();
  choice->profile = *std::move(profile);
  return LocalFabric::Open(std::move(choice));
}

absl::StatusOr<MemoryRegion> Register(const LocalFabric& local, RegionUse use) {
  return MemoryRegion::Register(*local.fabric, *local.domain, *local.endpoint,
                                *HostBuffer::Allocate(kBytes), use);
}

constexpr int kModes[] = {FI_MR_LOCAL,    FI_MR_VIRT_ADDR, FI_MR_ALLOCATED,
                          FI_MR_PROV_KEY, FI_MR_ENDPOINT,  FI_MR_RMA_EVENT};

// A combination's number has a bit for each mode.
class MemoryModes : public testing::TestWithParam<std::tuple<int, size_t>> {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < std::size(kModes); ++i) {
      if ((std::get<0>(GetParam()) >> i & 1) != 0) demands_.modes |= kModes[i];
    }
    demands_.key_bytes = std::get<1>(GetParam());
    local_ = OpenWith(demands_);
    ASSERT_NE(local_, nullptr);
    registrar_ = std::make_unique<Registrar>(local_->domain->get(), demands_.modes);
  }

  bool Demanded(int mode) const { return (demands_.modes & mode) != 0; }

  // What holds for every registration that is made.
  void CheckRegistration(const Registrar::Region& region, bool for_events) {
    EXPECT_EQ(region.was_populated, Demanded(FI_MR_ALLOCATED));
    EXPECT_EQ(region.flags, for_events ? FI_RMA_EVENT : 0);
    std::vector<std::string> steps;
    if (Demanded(FI_MR_ENDPOINT)) steps.push_back("bind");
    if (Demanded(FI_MR_ENDPOINT) || for_events) steps.push_back("enable");
    EXPECT_EQ(region.steps, steps);
    if (Demanded(FI_MR_ENDPOINT)) {
      EXPECT_EQ(region.bound_to, &local_->endpoint->get()->fid);
    }
    if (Demanded(FI_MR_PROV_KEY)) {
      EXPECT_EQ(region.requested_key, 0u);
    } else {
      EXPECT_NE(region.requested_key, 0u);
      EXPECT_TRUE(demands_.key_bytes == 8 || region.requested_key >> 32 == 0);
    }
  }

  Demands demands_;
  std::unique_ptr<LocalFabric> local_;
  std::unique_ptr<Registrar> registrar_;  // goes first
};

TEST_P(MemoryModes, TargetIsRegisteredAsDemandedWithTheRightToWriteOnly) {
  {
    absl::StatusOr<MemoryRegion> region = Register(*local_, RegionUse::kRemoteTarget);
    ASSERT_TRUE(region.ok()) << region.status();
    ASSERT_EQ(registrar_->regions.size(), 1u);
    const Registrar::Region& seen = *registrar_->regions[0];
    // Local access, too: some releases place a peer's write as a local one. Peers may not read.
    EXPECT_EQ(seen.access, FI_RECV | FI_REMOTE_WRITE);
    CheckRegistration(seen, Demanded(FI_MR_RMA_EVENT));
    EXPECT_EQ(region->key(), Demanded(FI_MR_PROV_KEY) ? kProviderKey : seen.requested_key);
    EXPECT_EQ(region->remote_base(),
              Demanded(FI_MR_VIRT_ADDR) ? reinterpret_cast<uintptr_t>(region->data()) : 0u);
    EXPECT_FALSE(seen.closed);
  }
  EXPECT_TRUE(registrar_->regions[0]->closed);
}

TEST_P(MemoryModes, LocalMemoryIsRegisteredOnlyIfDemandedWithTheRightsOfItsUse) {
  for (RegionUse use : {RegionUse::kSource, RegionUse::kReceive}) {
    registrar_->regions.clear();
    absl::StatusOr<MemoryRegion> region = Register(*local_, use);
    ASSERT_TRUE(region.ok()) << region.status();
    if (!Demanded(FI_MR_LOCAL)) {
      EXPECT_TRUE(registrar_->regions.empty());
      EXPECT_EQ(region->descriptor(), nullptr);
      continue;
    }
    ASSERT_EQ(registrar_->regions.size(), 1u);
    const Registrar::Region& seen = *registrar_->regions[0];
    EXPECT_EQ(seen.access, use == RegionUse::kSource ? FI_SEND | FI_WRITE : FI_RECV);
    CheckRegistration(seen, false);
    EXPECT_EQ(region->descriptor(), &seen);
    // While the table that it came from is there.
    *region = MemoryRegion();
  }
}

std::string NameOfCombination(const testing::TestParamInfo<std::tuple<int, size_t>>& info) {
  constexpr const char* kNames[] = {"Local",       "Virtual",  "Allocated",
                                    "ProviderKey", "Endpoint", "Events"};
  std::string name;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if ((std::get<0>(info.param) >> i & 1) != 0) name += kNames[i];
  }
  return (name.empty() ? "None" : name) + "Key" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Every, MemoryModes,
                         testing::Combine(testing::Range(0, 1 << std::size(kModes)),
                                          testing::Values(4, 8)),
                         NameOfCombination);

TEST(MemoryModesRefused, RegionsAreNotToldOfEventsThatTheFabricDoesNotGrant) {
  auto local = OpenWith({FI_MR_RMA_EVENT, 8, false});
  ASSERT_NE(local, nullptr);
  Registrar registrar(local->domain->get(), FI_MR_RMA_EVENT);
  const absl::StatusOr<MemoryRegion> region = Register(*local, RegionUse::kRemoteTarget);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(registrar.regions[0]->flags, 0u);
  EXPECT_TRUE(registrar.regions[0]->steps.empty());
}

TEST(MemoryModesRefused, KeyThatIsTakenIsReplacedByAnother) {
  auto local = OpenWith({});
  ASSERT_NE(local, nullptr);
  Registrar registrar(local->domain->get(), 0);
  registrar.register_results = {-FI_ENOKEY, -FI_ENOKEY};
  const absl::StatusOr<MemoryRegion> region = Register(*local, RegionUse::kRemoteTarget);
  ASSERT_TRUE(region.ok()) << region.status();
  ASSERT_EQ(registrar.regions.size(), 3u);
  EXPECT_NE(registrar.regions[0]->requested_key, registrar.regions[1]->requested_key);
  EXPECT_NE(registrar.regions[1]->requested_key, registrar.regions[2]->requested_key);
  EXPECT_EQ(region->key(), registrar.regions[2]->requested_key);
}

TEST(MemoryModesRefused, KeysThatAreAlwaysTakenAreAnErrorAtSomePoint) {
  auto local = OpenWith({});
  ASSERT_NE(local, nullptr);
  Registrar registrar(local->domain->get(), 0);
  registrar.register_results.assign(1000, -FI_ENOKEY);
  const absl::Status status = Register(*local, RegionUse::kRemoteTarget).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("fi_mr_reg of 12288 bytes"));
}

TEST(MemoryModesRefused, RefusalIsNotRepeated) {
  auto local = OpenWith({});
  ASSERT_NE(local, nullptr);
  Registrar registrar(local->domain->get(), 0);
  registrar.register_results = {-FI_ENOMEM};
  const absl::Status status = Register(*local, RegionUse::kRemoteTarget).status();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(registrar.regions.size(), 1u);
}

TEST(MemoryModesRefused, RawKeyIsAnErrorThatSaysSoAndTheRegionIsClosed) {
  auto local = OpenWith({FI_MR_PROV_KEY, 8});
  ASSERT_NE(local, nullptr);
  Registrar registrar(local->domain->get(), FI_MR_PROV_KEY);
  registrar.has_keys = false;
  const absl::Status status = Register(*local, RegionUse::kRemoteTarget).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("raw key"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("shm"));
  EXPECT_TRUE(registrar.regions[0]->closed);
}

TEST(MemoryModesRefused, StepThatFailsIsNamedAndTheRegionIsClosed) {
  for (const bool bind : {true, false}) {
    auto local = OpenWith({FI_MR_ENDPOINT, 8});
    ASSERT_NE(local, nullptr);
    Registrar registrar(local->domain->get(), FI_MR_ENDPOINT);
    (bind ? registrar.bind_result : registrar.enable_result) = -FI_EINVAL;
    const absl::Status status = Register(*local, RegionUse::kRemoteTarget).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(bind ? "fi_mr_bind" : "fi_mr_enable"));
    EXPECT_TRUE(registrar.regions[0]->closed);
  }
}

}  // namespace
}  // namespace invoker::transport
