// Libfabric objects with faults. Each of these is made for an object that has just been opened,
// stands in front of its provider from then on, and ends with it.
//
// One domain's objects belong to one thread at a time, as the code under test uses them
// (FI_THREAD_DOMAIN); so does what they share.

#ifndef INVOKER_TESTS_FAULTS_FAULTY_OBJECTS_H_
#define INVOKER_TESTS_FAULTS_FAULTY_OBJECTS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_set>

#include "tests/faults/fault_control.h"
#include "tests/transport/faults.h"

namespace invoker::faults {

// What the objects of one domain share.
struct DomainState {
  explicit DomainState(Dice dice) : dice(dice) {}

  Dice dice;
  bool is_victim = false;                      // the domain's endpoint
  std::unordered_set<fi_addr_t> victims;       // among its peers
  std::unordered_set<const void*> of_victims;  // contexts of operations that may get a fault
};

// Ends `Self` when its object is closed.
template <typename Self>
class ClosingHook {
 public:
  ClosingHook(fid* object, Self* self) : ops_(&object->ops, self) { ops_.ours().close = &Close; }

 private:
  using Ops = transport::ReplacedOps<fi_ops, Self>;

  static int Close(fid* object) {
    delete &Ops::From(object->ops);  // which puts the provider's tables back
    if (FaultControl::Get().ClosesLater(object)) return 0;
    return object->ops->close(object);
  }

  Ops ops_;
};

class FaultyEndpoint {
 public:
  FaultyEndpoint(fid_ep* endpoint, std::shared_ptr<DomainState> state);
  ~FaultyEndpoint();

 private:
  using Names = transport::ReplacedOps<fi_ops_cm, FaultyEndpoint>;

  int Judge(const transport::EndpointFaults::Attempt& attempt);
  // A victim is known to others by its address.
  static int GetName(fid* endpoint, void* address, size_t* length);

  const std::shared_ptr<DomainState> state_;
  uint32_t refusals_left_ = 0;
  transport::EndpointFaults posts_;
  Names names_;
  ClosingHook<FaultyEndpoint> closing_;
};

class FaultyQueue {
 public:
  FaultyQueue(fid_cq* queue, std::shared_ptr<DomainState> state);
  ~FaultyQueue();

  // Whether a reader must not sleep: something is held back, which comes only with further reads.
  // False for queues that have no faults.
  static bool MustNotSleep(fid* object);

 private:
  using Queue = transport::ReplacedOps<fi_ops_cq, FaultyQueue>;

  struct Held {
    fi_cq_data_entry entry;
    uint32_t reads_left;
    int64_t until_ns;
  };

  // What becomes of an entry that the provider has handed out.
  enum class Verdict : uint8_t { kDeliver, kHold, kDrop, kFail };
  Verdict Judge(const fi_cq_data_entry& entry);
  void Filter(fi_cq_data_entry* entries, ssize_t count, ssize_t* kept);
  void AgeHeld();

  static ssize_t Read(fid_cq* queue, void* buffer, size_t count);
  static ssize_t ReadError(fid_cq* queue, fi_cq_err_entry* entry, uint64_t flags);

  const std::shared_ptr<DomainState> state_;
  std::deque<Held> held_;
  std::deque<fi_cq_data_entry> lost_;  // until the faults end
  std::deque<fi_cq_data_entry> due_;
  std::deque<fi_cq_err_entry> errors_;
  Queue queue_;
  ClosingHook<FaultyQueue> closing_;
};

class FaultyVector {
 public:
  FaultyVector(fid_av* vector, std::shared_ptr<DomainState> state);
  ~FaultyVector();

 private:
  using Vector = transport::ReplacedOps<fi_ops_av, FaultyVector>;

  static int Insert(fid_av* vector, const void* addresses, size_t count, fi_addr_t* entries,
                    uint64_t flags, void* context);
  static int Remove(fid_av* vector, fi_addr_t* entries, size_t count, uint64_t flags);

  const std::shared_ptr<DomainState> state_;
  int64_t entries_ = 0;
  Vector vector_;
  ClosingHook<FaultyVector> closing_;
};

class FaultyDomain {
 public:
  explicit FaultyDomain(fid_domain* domain);

 private:
  using Domain = transport::ReplacedOps<fi_ops_domain, FaultyDomain>;
  using Regions = transport::ReplacedOps<fi_ops_mr, FaultyDomain>;

  static int OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context);
  static int OpenQueue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context);
  static int OpenVector(fid_domain* domain, fi_av_attr* attributes, fid_av** vector, void* context);
  static int Register(fid* domain, const void* memory, size_t bytes, uint64_t access,
                      uint64_t offset, uint64_t key, uint64_t flags, fid_mr** region,
                      void* context);

  const std::shared_ptr<DomainState> state_;
  Domain domain_;
  Regions regions_;
  ClosingHook<FaultyDomain> closing_;
};

class FaultyFabric {
 public:
  explicit FaultyFabric(fid_fabric* fabric);

 private:
  using Fabric = transport::ReplacedOps<fi_ops_fabric, FaultyFabric>;

  static int OpenDomain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context);
  static int TryWait(fid_fabric* fabric, fid** objects, int count);

  Fabric fabric_;
  ClosingHook<FaultyFabric> closing_;
};

}  // namespace invoker::faults

#endif  // INVOKER_TESTS_FAULTS_FAULTY_OBJECTS_H_
