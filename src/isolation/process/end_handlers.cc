#include "src/isolation/process/end_handlers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "src/base/fork_guard.h"
#include "src/isolation/process/process_setup.h"

namespace invoker {
namespace {

constexpr size_t kSignalStackBytes = 64 << 10;

std::atomic<ExecutorPage*> noted_in{nullptr};

// What follows is safe in a signal handler: it calls the kernel only.

void OnFault(int signal, siginfo_t* info, void*) {
  // Belongs to the code that the signal has interrupted: what malloc leaves behind when it fails.
  const int interrupted_errno = errno;
  ExecutorPage* page = noted_in.load();
  // A child's end is the child's affair.
  if (page != nullptr && !InForkedChild()) {
    page->fault_address.store(reinterpret_cast<uint64_t>(info->si_addr));
    page->address_space_bytes.store(AddressSpaceBytes());
    if (interrupted_errno == ENOMEM) page->out_of_memory.store(1);
  }
  // SA_RESETHAND: this time the default action is taken, once the handler has returned. By the
  // kernel's numbers, since what the library knows of this thread may be overwritten.
  syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), signal);
}

void OnExit(int status, void*) {
  ExecutorPage* page = noted_in.load();
  if (page == nullptr) return;
  // Not through the destructors of everything that this process has: its threads still run, and
  // what a child would take down is its parent's.
  if (!InForkedChild()) page->exit_called.store(static_cast<uint32_t>(status & 0xff) + 1);
  _exit(status);
}

void OnOutOfMemory() {
  ExecutorPage* page = noted_in.load();
  if (InForkedChild() || page == nullptr) throw std::bad_alloc();
  page->address_space_bytes.store(AddressSpaceBytes());
  page->out_of_memory.store(1);
  // Like the kernel's own way to enforce a limit.
  raise(SIGKILL);
}

}  // namespace

void InstallEndHandlers(ExecutorPage* page) {
  noted_in.store(page);
  UseSignalStack();
  struct sigaction action = {};
  action.sa_sigaction = &OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS}) {
    sigaction(signal, &action, nullptr);
  }
  // Once more: the fabrics and libraries that were opened may have set handlers of their own.
  IgnoreEndSignals();
  on_exit(&OnExit, nullptr);
}

void UseSignalStack() {
  void* stack =
      mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return;
  stack_t use = {};
  use.ss_sp = stack;
  use.ss_size = kSignalStackBytes;
  sigaltstack(&use, nullptr);
}

void EndWhenOutOfMemory() { std::set_new_handler(&OnOutOfMemory); }

void EndForOverrun(const char* function, uint64_t written, uint64_t capacity) {
  static_cast<void>(function);
  if (ExecutorPage* page = noted_in.load(); page != nullptr && !InForkedChild()) {
    page->overrun_bytes.store(written - capacity);
  }
  abort();
}

void EndQuietly() {
  noted_in.store(nullptr);
  _exit(0);
}

uint64_t AddressSpaceBytes() {
  char text[64];
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = read(fd, text, sizeof(text));
  close(fd);
  uint64_t pages = 0;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i) {
    pages = pages * 10 + static_cast<uint64_t>(text[i] - '0');
  }
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace invoker
