// A long write on libfabric's EFA provider to a region that is registered for FI_REMOTE_WRITE
// alone, without any code of Invoker's.
//
// The card reads and does not write, so the target reads the bytes into the region. From libfabric
// 1.19 to 2.1 that fails with an error of the local key: the provider registers the region at the
// card without local write, unless it is registered for FI_RECV too (prov/efa/src/efa_mr.c,
// efa_mr_reg_impl). Until 1.18 the provider did not know FI_REMOTE_WRITE, and asked for local write.
// From 2.2 on FI_REMOTE_WRITE asks for it as well.
//
//   cc efa_remote_write_access.c -lfabric && ./a.out
//
// Prints "survived" and ends with 0 where libfabric is right. Says that the write was lost and ends
// by SIGABRT where it is not. With the argument "receive", the region is registered for FI_RECV too:
// that works. With the argument "shorter", the bytes come by messages: that works.

#include "efa_side.h"

// FI_EFA_INTER_MIN_READ_WRITE_SIZE: from so many bytes on, the target reads them.
#define LONG 65536

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "";
  const size_t length = strcmp(how, "shorter") == 0 ? LONG - 1 : LONG;
  static struct side writer, target;
  static struct fi_context2 context;
  fi_addr_t to;
  ssize_t code;
  choose("1", "0");
  open_side(&writer, FI_WRITE);
  open_side(&target, strcmp(how, "receive") == 0 ? FI_RECV | FI_REMOTE_WRITE : FI_REMOTE_WRITE);
  to = meet(&writer, target.name);
  meet(&target, writer.name);
  memset(writer.memory, 1, length);
  do {
    look(&writer);
    look(&target);
    code = fi_write(writer.endpoint, writer.memory, length, fi_mr_desc(writer.region), to,
                    (uintptr_t)target.memory, fi_mr_key(target.region), &context);
  } while (code == -FI_EAGAIN);
  CHECK(code);
  while (writer.written == 0 || target.memory[length - 1] == 0) {
    look(&writer);
    look(&target);
    if (writer.failed || target.failed) {
      printf("lost: the write of %zu bytes; the writer has %s, the target has %s\n", length,
             writer.failed ? writer.failure : "no news", target.failed ? target.failure : "no news");
      fflush(stdout);
      abort();
    }
  }
  printf("survived\n");
  return 0;
}
