// What a spawner's executors are made from: the fabrics that they can serve, their user, their
// groups and libraries, and the commands that start them. Decided once, before any template starts.

#ifndef INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_SETUP_H_
#define INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_SETUP_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/executor_control.pb.h"
#include "src/isolation/limits/control_group.h"
#include "src/isolation/process/process_setup.h"
#include "src/isolation/spawner/executor_spawner.h"

namespace invoker {

struct ExecutorSetup {
  // For each kind of executor.
  struct Kind {
    std::vector<std::string> template_command;  // empty: the kind is not served
    std::vector<std::string> variables;         // the environment's, besides the server's
    std::vector<std::string> command;  // for an executor that is not a plain fork; else empty
    uint32_t prestart = 0;

    bool served() const { return !template_command.empty(); }
  };

  // Errors say what executors lack here.
  static absl::StatusOr<ExecutorSetup> Make(const SpawnerOptions& options);

  std::vector<std::string> notes;              // ExecutorSpawner::Notes
  isolation::v1::ToTemplate::Prepare prepare;  // the same for every template
  ExecutorUser user;                           // the user that executors run as
  std::vector<UniqueFd> libraries;             // open files, in the order of the options
  std::unique_ptr<ControlGroups> groups;       // nullptr: there are none here
  std::array<Kind, 2> kinds;                   // by ExecutorKind

  Kind& KindOf(ExecutorKind kind) { return kinds[static_cast<size_t>(kind)]; }
  const Kind& KindOf(ExecutorKind kind) const { return kinds[static_cast<size_t>(kind)]; }
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_SETUP_H_
