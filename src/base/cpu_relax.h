// A pause for a loop between two looks at memory that another processor writes.

#ifndef INVOKER_SRC_BASE_CPU_RELAX_H_
#define INVOKER_SRC_BASE_CPU_RELAX_H_

namespace invoker {

// Tells the processor that the caller spins: some tens of nanoseconds at most, in which the memory
// stays with its writer.
inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_CPU_RELAX_H_
