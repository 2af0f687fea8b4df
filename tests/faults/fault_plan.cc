#include "tests/faults/fault_plan.h"

namespace invoker::faults {
namespace {

FaultPlan Again() {
  FaultPlan plan;
  plan.name = "again";
  plan.post_again = 0.1;
  plan.longest_burst = 50;
  return plan;
}

FaultPlan Late() {
  FaultPlan plan;
  plan.name = "late";
  plan.late = 0.3;
  plan.latest = 200;
  return plan;
}

FaultPlan Rough() {
  FaultPlan plan = Late();
  plan.name = "rough";
  plan.post_again = 0.05;
  plan.longest_burst = 30;
  return plan;
}

FaultPlan Posts() {
  FaultPlan plan = Again();
  plan.name = "posts";
  plan.post_again = 0.02;
  plan.victims = 0.5;
  plan.post_fails = 0.01;
  return plan;
}

FaultPlan Errors() {
  FaultPlan plan = Late();
  plan.name = "errors";
  plan.late = 0.1;
  plan.victims = 0.5;
  plan.completion_fails = 0.01;
  return plan;
}

FaultPlan Lost() {
  FaultPlan plan;
  plan.name = "lost";
  plan.victims = 0.5;
  plan.completion_lost = 0.02;
  plan.notification_lost = 0.05;
  return plan;
}

FaultPlan Opening() {
  FaultPlan plan;
  plan.name = "opening";
  plan.registration_fails = 0.05;
  plan.insert_fails = 0.1;
  plan.open_fails = 0.03;
  plan.map_fails = 0.02;
  return plan;
}

FaultPlan Everything() {
  FaultPlan plan = Rough();
  plan.name = "everything";
  plan.late = 0.05;
  plan.post_again = 0.01;
  plan.victims = 0.5;
  plan.post_fails = 0.002;
  plan.completion_fails = 0.002;
  plan.completion_lost = 0.005;
  plan.notification_lost = 0.01;
  plan.registration_fails = 0.01;
  plan.insert_fails = 0.03;
  plan.open_fails = 0.005;
  plan.map_fails = 0.005;
  return plan;
}

std::vector<FaultPlan> Plans() {
  return {Again(), Late(), Rough(), Posts(), Errors(), Lost(), Opening(), Everything()};
}

}  // namespace

std::optional<FaultPlan> FindPlan(absl::string_view name) {
  for (FaultPlan& plan : Plans()) {
    if (plan.name == name) return std::move(plan);
  }
  return std::nullopt;
}

std::vector<std::string> PlanNames() {
  std::vector<std::string> names;
  for (const FaultPlan& plan : Plans()) names.push_back(plan.name);
  return names;
}

Dice::Dice(uint64_t seed, uint64_t object) : state_(seed * 0xD1342543DE82EF95u + object) {
  // Neighbouring seeds and objects begin far apart.
  state_ = Draw();
}

uint64_t Dice::Draw() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool Dice::Hits(double probability) {
  if (probability <= 0) return false;
  constexpr double kOne = 9007199254740992.0;  // 2^53
  return static_cast<double>(Draw() >> 11) < probability * kOne;
}

}  // namespace invoker::faults
