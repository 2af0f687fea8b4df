// Functions that do to their process what functions should not.

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "invoker/function.h"

namespace {

// The compiler does not know that there is nothing there.
volatile char* volatile nowhere = nullptr;

invoker::Result Answer(invoker::Output& output, std::string_view text) {
  output.Append(text.data(), text.size());
  return invoker::Result::Ok();
}

std::string Text(pid_t pid) { return std::to_string(pid); }

// Deeper than any stack.
__attribute__((noinline)) int Recurse(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? 0 : Recurse(depth + 1) + frame[0];
}

}  // namespace

INVOKER_FUNCTION(bad.echo, input, output) { return Answer(output, input.text()); }

INVOKER_FUNCTION(bad.pid, input, output) { return Answer(output, Text(getpid())); }

INVOKER_FUNCTION(bad.user, input, output) { return Answer(output, std::to_string(getuid())); }

INVOKER_FUNCTION(bad.null, input, output) {
  *nowhere = 1;
  return invoker::Result::Ok();
}

INVOKER_FUNCTION(bad.abort, input, output) { abort(); }

INVOKER_FUNCTION(bad.stack, input, output) {
  return invoker::Result::Error(std::to_string(Recurse(1)));
}

INVOKER_FUNCTION(bad.exit, input, output) { exit(3); }

INVOKER_FUNCTION(bad.exit_at_once, input, output) { _exit(4); }

// Allocates and touches, until that fails.
INVOKER_FUNCTION(bad.leak, input, output) {
  constexpr size_t kStep = 1 << 20;
  while (true) {
    char* memory = new char[kStep];
    for (size_t i = 0; i < kStep; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
  }
}

// The same, by way of C, and without a look at what it got.
INVOKER_FUNCTION(bad.leak_in_c, input, output) {
  while (true) memset(malloc(1 << 20), 1, 1 << 20);
}

// Has children that each use some memory and keep it, until there is no more; none uses much.
INVOKER_FUNCTION(bad.leak_in_children, input, output) {
  constexpr size_t kEach = 8 << 20;
  for (int i = 0; i < 32; ++i) {
    const pid_t child = fork();
    if (child < 0) return invoker::Result::Error("fork");
    if (child > 0) continue;
    char* memory = static_cast<char*>(malloc(kEach));
    if (memory != nullptr) memset(memory, 1, kEach);
    // Memory that nobody looks at the compiler would not take at all.
    asm volatile("" : : "r"(memory) : "memory");
    while (true) pause();
  }
  while (true) pause();
}

INVOKER_FUNCTION(bad.forever, input, output) {
  while (true) {
    // What the compiler would otherwise take to be no loop at all.
    asm volatile("");
  }
}

// Never returns. The input, if any, names a FIFO, into which it writes a byte first.
INVOKER_FUNCTION(bad.block, input, output) {
  if (const std::string fifo(input.text()); !fifo.empty()) {
    const int fd = open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || write(fd, "b", 1) != 1) return invoker::Result::Error(strerror(errno));
    close(fd);
  }
  while (true) pause();
}

// Forks; both return.
INVOKER_FUNCTION(bad.fork, input, output) {
  const pid_t child = fork();
  if (child < 0) return invoker::Result::Error("fork");
  return Answer(output, child == 0 ? "the child" : "the parent");
}

// Forks; the child leaves by exit(3).
INVOKER_FUNCTION(bad.fork_exit, input, output) {
  const pid_t child = fork();
  if (child < 0) return invoker::Result::Error("fork");
  if (child == 0) exit(7);
  int status = 0;
  waitpid(child, &status, 0);
  return Answer(output, std::to_string(WEXITSTATUS(status)));
}

// What a function may do.
INVOKER_FUNCTION(bad.popen, input, output) {
  FILE* pipe = popen("echo from another program", "r");
  if (pipe == nullptr) return invoker::Result::Error("popen");
  char line[64] = {};
  const bool read = fgets(line, sizeof(line), pipe) != nullptr;
  const int status = pclose(pipe);
  if (!read || status != 0) return invoker::Result::Error("the other program failed");
  return Answer(output, line);
}

// Leaves a process behind that has nothing to do with this one any more, and says which.
INVOKER_FUNCTION(bad.daemon, input, output) {
  int ends[2];
  if (pipe(ends) != 0) return invoker::Result::Error("pipe");
  const pid_t child = fork();
  if (child < 0) return invoker::Result::Error("fork");
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    setsid();
    const pid_t self = getpid();
    if (write(ends[1], &self, sizeof(self)) != sizeof(self)) _exit(1);
    while (true) pause();
  }
  pid_t daemon = 0;
  close(ends[1]);
  const bool told = read(ends[0], &daemon, sizeof(daemon)) == sizeof(daemon);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return told ? Answer(output, Text(daemon)) : invoker::Result::Error("the daemon did not start");
}

// Writes over what lies before an allocation, which is the allocator's, and gives it back. No more
// than that: what else lies on the heap may be a lock, and its process then waits for ever.
INVOKER_FUNCTION(bad.corrupt, input, output) {
  char* memory = static_cast<char*>(malloc(4096));
  // The compiler is not to know that nobody may do that, or it would not.
  volatile char* before = memory;
  asm volatile("" : "+r"(before));
  for (int i = 1; i <= 8; ++i) *(before - i) = 0x5a;
  free(memory);
  return invoker::Result::Ok();
}

// Closes what is not its own.
INVOKER_FUNCTION(bad.close_all, input, output) {
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  while (true) pause();
}

// Opens its own program's file for writing to, and says what comes of it.
INVOKER_FUNCTION(bad.write_root, input, output) {
  const int fd = open("/etc/invoker_was_here", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return Answer(output, strerror(errno));
  unlink("/etc/invoker_was_here");
  close(fd);
  return Answer(output, "written");
}

// Says where its process stands.
INVOKER_FUNCTION(bad.directory, input, output) {
  char path[PATH_MAX];
  if (getcwd(path, sizeof(path)) == nullptr) return invoker::Result::Error(strerror(errno));
  return Answer(output, path);
}

// Says what an environment variable is, or that there is none.
INVOKER_FUNCTION(bad.variable, input, output) {
  const char* value = getenv(std::string(input.text()).c_str());
  return Answer(output, value == nullptr ? "(none)" : value);
}

// Tells the server that its sessions have ended, as its process would, and runs on.
INVOKER_FUNCTION(bad.say_closed, input, output) {
  for (char handle = 0; handle < 8; ++handle) {
    // A last packet: FromExecutor with session_closed with that handle.
    const char packet[] = {1, 0x42, 9, 9, handle, 0, 0, 0, 0, 0, 0, 0};
    for (int fd = 3; fd < 1024; ++fd) {
      int type = 0;
      socklen_t size = sizeof(type);
      if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET)
        continue;
      if (send(fd, packet, sizeof(packet), MSG_NOSIGNAL) < 0) return invoker::Result::Error("send");
    }
  }
  while (true) pause();
}

// Leaves processes behind of which each starts the next one and ends, as long as the file is there
// that the input names, but for no more than two minutes.
INVOKER_FUNCTION(bad.fork_on, input, output) {
  const std::string file(input.text());
  const pid_t child = fork();
  if (child < 0) return invoker::Result::Error("fork");
  if (child == 0) {
    timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    timespec now = start;
    while (access(file.c_str(), F_OK) == 0 && now.tv_sec < start.tv_sec + 120) {
      if (fork() != 0) _exit(0);
      clock_gettime(CLOCK_MONOTONIC, &now);
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return Answer(output, "forking");
}

// Leaves a file in /dev/shm by the name that the input is.
INVOKER_FUNCTION(bad.leave_shared, input, output) {
  const std::string path = "/dev/shm/" + std::string(input.text());
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return invoker::Result::Error(strerror(errno));
  close(fd);
  return Answer(output, "left");
}
