// Arms the faults of the test that links this (faulty_fabric.h) before anything else runs.

#include <cstdlib>

namespace {

[[maybe_unused]] const int kArmed = setenv("INVOKER_FAULT_PLAN", "rough", /*replace=*/0);

}  // namespace
