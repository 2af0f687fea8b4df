#include <string>

#include "tests/faults/faulty_objects.h"

namespace invoker::faults {
namespace {

// Counts a region while it is registered.
class CountedRegion {
 public:
  explicit CountedRegion(fid_mr* region) : closing_(&region->fid, this) {
    ++FaultControl::Get().counts.regions;
  }
  ~CountedRegion() { --FaultControl::Get().counts.regions; }

 private:
  ClosingHook<CountedRegion> closing_;
};

int OpeningFails() { return FaultControl::Get().OpeningFails() ? -FI_ENOMEM : 0; }

}  // namespace

FaultyVector::FaultyVector(fid_av* vector, std::shared_ptr<DomainState> state)
    : state_(std::move(state)), vector_(&vector->ops, this), closing_(&vector->fid, this) {
  ++FaultControl::Get().counts.vectors;
  vector_.ours().insert = &Insert;
  vector_.ours().remove = &Remove;
}

FaultyVector::~FaultyVector() {
  LiveCounts& counts = FaultControl::Get().counts;
  --counts.vectors;
  counts.addresses -= entries_;
}

// One address at a time, as the code under test inserts them.
int FaultyVector::Insert(fid_av* vector, const void* addresses, size_t count, fi_addr_t* entries,
                         uint64_t flags, void* context) {
  FaultyVector& self = Vector::From(vector->ops);
  FaultControl& control = FaultControl::Get();
  const FaultPlan* const plan = control.plan();
  if (plan != nullptr && self.state_->dice.Hits(plan->insert_fails)) {
    ++control.counts.insert_fails;
    for (size_t i = 0; i < count; ++i) entries[i] = FI_ADDR_NOTAVAIL;
    return self.state_->dice.Hits(0.5) ? 0 : -FI_ENOMEM;
  }
  const int inserted =
      self.vector_.provider().insert(vector, addresses, count, entries, flags, context);
  if (inserted != 1) return inserted;
  ++self.entries_;
  ++control.counts.addresses;
  char raw[256];
  size_t bytes = sizeof(raw);
  if (fi_av_lookup(vector, entries[0], raw, &bytes) == 0 && bytes <= sizeof(raw) &&
      control.IsVictim(std::string(raw, bytes))) {
    self.state_->victims.insert(entries[0]);
  } else {
    self.state_->victims.erase(entries[0]);
  }
  return inserted;
}

int FaultyVector::Remove(fid_av* vector, fi_addr_t* entries, size_t count, uint64_t flags) {
  FaultyVector& self = Vector::From(vector->ops);
  const int code = self.vector_.provider().remove(vector, entries, count, flags);
  if (code == 0) {
    self.entries_ -= static_cast<int64_t>(count);
    FaultControl::Get().counts.addresses -= static_cast<int64_t>(count);
  }
  return code;
}

FaultyDomain::FaultyDomain(fid_domain* domain)
    : state_(std::make_shared<DomainState>(FaultControl::Get().NewDice())),
      domain_(&domain->ops, this),
      regions_(&domain->mr, this),
      closing_(&domain->fid, this) {
  domain_.ours().endpoint = &OpenEndpoint;
  domain_.ours().cq_open = &OpenQueue;
  domain_.ours().av_open = &OpenVector;
  regions_.ours().reg = &Register;
}

int FaultyDomain::OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint,
                               void* context) {
  FaultyDomain& self = Domain::From(domain->ops);
  if (const int code = OpeningFails(); code != 0) return code;
  const int code = self.domain_.provider().endpoint(domain, info, endpoint, context);
  if (code == 0) new FaultyEndpoint(*endpoint, self.state_);
  return code;
}

int FaultyDomain::OpenQueue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue,
                            void* context) {
  FaultyDomain& self = Domain::From(domain->ops);
  if (const int code = OpeningFails(); code != 0) return code;
  const int code = self.domain_.provider().cq_open(domain, attributes, queue, context);
  if (code == 0 && attributes->format == FI_CQ_FORMAT_DATA) new FaultyQueue(*queue, self.state_);
  return code;
}

int FaultyDomain::OpenVector(fid_domain* domain, fi_av_attr* attributes, fid_av** vector,
                             void* context) {
  FaultyDomain& self = Domain::From(domain->ops);
  if (const int code = OpeningFails(); code != 0) return code;
  const int code = self.domain_.provider().av_open(domain, attributes, vector, context);
  if (code == 0) new FaultyVector(*vector, self.state_);
  return code;
}

int FaultyDomain::Register(fid* domain, const void* memory, size_t bytes, uint64_t access,
                           uint64_t offset, uint64_t key, uint64_t flags, fid_mr** region,
                           void* context) {
  FaultyDomain& self = Regions::From(reinterpret_cast<fid_domain*>(domain)->mr);
  FaultControl& control = FaultControl::Get();
  const FaultPlan* const plan = control.plan();
  if (plan != nullptr && self.state_->dice.Hits(plan->registration_fails)) {
    ++control.counts.registration_fails;
    return self.state_->dice.Hits(0.5) ? -FI_ENOMEM : -FI_ENOKEY;
  }
  const int code = self.regions_.provider().reg(domain, memory, bytes, access, offset, key, flags,
                                                region, context);
  if (code == 0) new CountedRegion(*region);
  return code;
}

FaultyFabric::FaultyFabric(fid_fabric* fabric)
    : fabric_(&fabric->ops, this), closing_(&fabric->fid, this) {
  fabric_.ours().domain = &OpenDomain;
  fabric_.ours().trywait = &TryWait;
}

int FaultyFabric::OpenDomain(fid_fabric* fabric, fi_info* info, fid_domain** domain,
                             void* context) {
  FaultyFabric& self = Fabric::From(fabric->ops);
  if (const int code = OpeningFails(); code != 0) return code;
  const int code = self.fabric_.provider().domain(fabric, info, domain, context);
  if (code == 0) new FaultyDomain(*domain);
  return code;
}

int FaultyFabric::TryWait(fid_fabric* fabric, fid** objects, int count) {
  FaultyFabric& self = Fabric::From(fabric->ops);
  for (int i = 0; i < count; ++i) {
    if (FaultyQueue::MustNotSleep(objects[i])) return -FI_EAGAIN;
  }
  return self.fabric_.provider().trywait(fabric, objects, count);
}

}  // namespace invoker::faults
