// Faults in every libfabric object that this process opens, from the moment it is opened: a program
// that links this has a fi_fabric and a fi_getinfo of its own, which call libfabric's and put
// tables of operations of ours in front of those of the objects (tests/transport/faults.h).
//
// Nothing is done to any operation before Arm, but what is opened is counted from the beginning. An
// environment with INVOKER_FAULT_PLAN (a name of FindPlan) and INVOKER_FAULT_SEED arms by itself
// before the first fabric is opened: so a test runs under a plan without knowing it. Such a process
// says at its end what it was given, and fails if that was nothing.
//
// Where INVOKER_FAULT_COUNTS names a file, counts of what is open and given are kept in it
// (live_counts.h), so that another process can look: the shared library of this,
// preloaded into a program, shows what that has open.
//
// Arm and Disarm while nobody is inside libfabric but for polling; everything else is any thread's.

#ifndef INVOKER_TESTS_FAULTS_FAULTY_FABRIC_H_
#define INVOKER_TESTS_FAULTS_FAULTY_FABRIC_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/faults/fault_plan.h"

namespace invoker::faults {

// Faults given so far, by kind, and what they were chosen from.
struct FaultCounts {
  uint64_t posts = 0;
  uint64_t again = 0;
  uint64_t late = 0;
  uint64_t post_fails = 0;
  uint64_t completion_fails = 0;
  uint64_t completions_lost = 0;
  uint64_t notifications_lost = 0;
  uint64_t registration_fails = 0;
  uint64_t insert_fails = 0;
  uint64_t open_fails = 0;
  uint64_t map_fails = 0;

  uint64_t harmless() const { return again + late; }
  uint64_t harmful() const {
    return post_fails + completion_fails + completions_lost + notifications_lost +
           registration_fails + insert_fails + open_fails + map_fails;
  }
  std::string Text() const;
};

// What is open now, in the whole process.
struct OpenObjects {
  int64_t endpoints = 0;
  int64_t queues = 0;
  int64_t vectors = 0;
  int64_t regions = 0;
  int64_t addresses = 0;  // entries of address vectors
};

void Arm(const FaultPlan& plan, uint64_t seed);
// From now on no operation gets a fault. What is held back, and completions that were lost, come
// with the next reads.
void Disarm();

// From now on what is closed stays open in the provider until CloseNow, but for registrations. On a
// fabric of shared memory, endpoints of one process use each other's memory itself, which goes with
// its owner's endpoint; of another process they would have a mapping of their own, which stays.
void CloseLater();
void CloseNow();

FaultCounts Given();
OpenObjects Open();

// Whether the endpoint of this raw address has been drawn as a victim.
bool IsVictim(absl::string_view raw_address);

}  // namespace invoker::faults

#endif  // INVOKER_TESTS_FAULTS_FAULTY_FABRIC_H_
