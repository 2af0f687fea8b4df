// Tries a fabric for a server, in a process of its own. Not for people.

#include "src/transport/self_test/self_test_program.h"

int main(int argc, char** argv) { return invoker::transport::RunSelfTestProgram(argc, argv); }
