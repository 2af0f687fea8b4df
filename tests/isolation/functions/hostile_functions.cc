// Functions that are after what is beyond their own process: the server's books and descriptors,
// and other executors.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "invoker/function.h"

namespace {

invoker::Result Answer(invoker::Output& output, std::string_view text) {
  output.Append(text.data(), text.size());
  return invoker::Result::Ok();
}

// What the executor shares with its server, found as anybody in its process can; nullptr: it is not
// there.
char* SharedPage() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:invoker_executor") == std::string::npos) continue;
    return reinterpret_cast<char*>(std::stoull(line, nullptr, 16));
  }
  return nullptr;
}

constexpr size_t kPageBytes = 4096;

bool IsControlSocket(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

void UseProcessorTime(int64_t ns) {
  timespec used;
  do {
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  } while (int64_t{1'000'000'000} * used.tv_sec + used.tv_nsec < ns);
}

}  // namespace

// Writes the byte that the input begins with all over what the executor shares with its server.
INVOKER_FUNCTION(hostile.forge, input, output) {
  char* page = SharedPage();
  if (page == nullptr) return invoker::Result::Error("there is no such page");
  memset(page, input.text()[0], kPageBytes);
  return Answer(output, "forged");
}

// Writes what is no message to whatever is open, and waits for what comes of it.
INVOKER_FUNCTION(hostile.write_all, input, output) {
  const char text[] = "what is this?";
  for (int fd = 3; fd < 1024; ++fd) {
    if (!IsControlSocket(fd)) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    static_cast<void>(!write(fd, text, sizeof(text)));
  }
  while (true) pause();
}

// Sends the server descriptors, in packets of a message that never ends.
INVOKER_FUNCTION(hostile.send_descriptors, input, output) {
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  char more = 0;
  iovec piece = {&more, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* entry = CMSG_FIRSTHDR(&header);
  entry->cmsg_level = SOL_SOCKET;
  entry->cmsg_type = SCM_RIGHTS;
  entry->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(entry), &file, sizeof(int));
  for (int fd = 3; fd < 1024; ++fd) {
    if (!IsControlSocket(fd)) continue;
    for (int i = 0; i < 10'000; ++i) {
      if (sendmsg(fd, &header, MSG_NOSIGNAL) < 0) break;
    }
  }
  while (true) pause();
}

// Sends the server packets of one byte, of a message that never ends, by several processes at once,
// so that there is always one more to read.
INVOKER_FUNCTION(hostile.send_nothing, input, output) {
  for (int i = 0; i < 2; ++i) fork();
  const char more = 0;
  while (true) {
    for (int fd = 3; fd < 1024; ++fd) {
      if (!IsControlSocket(fd)) continue;
      while (send(fd, &more, 1, MSG_NOSIGNAL) == 1) {
      }
    }
  }
}

// Leaves processes behind that tell the server, for ever, that a session has ended; each starts the
// next one after some words and ends, as long as the file is there that the input names, but for no
// more than two minutes.
INVOKER_FUNCTION(hostile.talk_on, input, output) {
  const std::string file(input.text());
  const pid_t child = fork();
  if (child < 0) return invoker::Result::Error("fork");
  if (child > 0) {
    waitpid(child, nullptr, 0);
    return Answer(output, "talking");
  }
  for (int i = 0; i < 2; ++i) fork();
  // A last packet: FromExecutor with session_closed with a handle that is none.
  const char packet[] = {1, 0x42, 9, 9, 99, 0, 0, 0, 0, 0, 0, 0};
  timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  timespec now = start;
  while (access(file.c_str(), F_OK) == 0 && now.tv_sec < start.tv_sec + 120) {
    for (int fd = 3; fd < 1024; ++fd) {
      if (!IsControlSocket(fd)) continue;
      for (int i = 0; i < 100; ++i) send(fd, packet, sizeof(packet), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (fork() != 0) _exit(0);
    clock_gettime(CLOCK_MONOTONIC, &now);
  }
  _exit(0);
}

// Stops what its process was forked from, if it may.
INVOKER_FUNCTION(hostile.stop_parent, input, output) {
  return Answer(output, kill(getppid(), SIGSTOP) == 0 ? "stopped" : strerror(errno));
}

// Has a child use as many milliseconds of processor time as the input says, for which nobody waits,
// so that its parent's children have used none.
INVOKER_FUNCTION(hostile.compute_unseen, input, output) {
  const int64_t ns = 1'000'000 * std::stoll(std::string(input.text()));
  int ends[2];
  if (pipe(ends) != 0) return invoker::Result::Error("pipe");
  signal(SIGCHLD, SIG_IGN);
  const pid_t child = fork();
  if (child < 0) return invoker::Result::Error("fork");
  if (child == 0) {
    UseProcessorTime(ns);
    _exit(0);
  }
  close(ends[1]);
  char none;
  // Until it has gone.
  static_cast<void>(!read(ends[0], &none, 1));
  close(ends[0]);
  while (kill(child, 0) == 0) sched_yield();
  signal(SIGCHLD, SIG_DFL);
  return Answer(output, "computed");
}

// Leaves a tree of processes behind, 2 to the power of what the input says, each in a session of
// its own.
INVOKER_FUNCTION(hostile.fork_tree, input, output) {
  int levels = std::stoi(std::string(input.text()));
  const pid_t root = fork();
  if (root < 0) return invoker::Result::Error("fork");
  if (root > 0) return Answer(output, std::to_string(root));
  setsid();
  while (levels-- > 0) fork();
  while (true) pause();
}

// Starts threads until that fails, but no more than the input says; they stay.
INVOKER_FUNCTION(hostile.threads, input, output) {
  const int most = std::stoi(std::string(input.text()));
  int started = 0;
  try {
    for (; started < most; ++started) {
      std::thread([] {
        while (true) pause();
      }).detach();
    }
  } catch (const std::system_error&) {
    return Answer(output, "no more than " + std::to_string(started));
  }
  return Answer(output, "all");
}

// Takes as many MiB of memory as the input says by way of a file in /dev/shm, whose name is gone
// before it has any.
INVOKER_FUNCTION(hostile.map_shared, input, output) {
  const size_t bytes = std::stoull(std::string(input.text())) << 20;
  const std::string path = "/dev/shm/hostile." + std::to_string(getpid());
  const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return invoker::Result::Error(strerror(errno));
  unlink(path.c_str());
  void* memory = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int error = errno;
  close(fd);
  if (memory == MAP_FAILED) return Answer(output, strerror(error));
  memset(memory, 1, bytes);
  munmap(memory, bytes);
  return Answer(output, "taken");
}

// Ends what its process was forked from, if it may.
INVOKER_FUNCTION(hostile.kill_parent, input, output) {
  return Answer(output, kill(getppid(), SIGKILL) == 0 ? "killed" : strerror(errno));
}

// Ends all processes that it can, if it is a user that nobody else is.
INVOKER_FUNCTION(hostile.kill_user, input, output) {
  if (getuid() < 1'000'000) return Answer(output, "a common user");
  if (kill(-1, SIGKILL) == 0) return Answer(output, "killed");
  return Answer(output, strerror(errno));
}

// Ends all processes that it can, if these are those of a sandbox only, whose first process is that
// sandbox's: elsewhere they may be anybody's.
INVOKER_FUNCTION(hostile.kill_all, input, output) {
  std::string first;
  std::getline(std::ifstream("/proc/1/comm"), first);
  if (first != "bwrap" || getpid() > 100) return Answer(output, "not in a sandbox");
  signal(SIGCHLD, SIG_IGN);
  return Answer(output, kill(-1, SIGKILL) == 0 ? "killed" : strerror(errno));
}
