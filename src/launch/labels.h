// The labels that the workers of jobs have in a cluster.

#ifndef INVOKER_SRC_LAUNCH_LABELS_H_
#define INVOKER_SRC_LAUNCH_LABELS_H_

namespace invoker::launch {

inline constexpr char kJobLabel[] = "slurm_job";
inline constexpr char kStepLabel[] = "slurm_step";
inline constexpr char kNodeLabel[] = "node";

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_LABELS_H_
