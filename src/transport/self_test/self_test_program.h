// The helper program that runs one self-test (self_test_process.h).

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_PROGRAM_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_PROGRAM_H_

namespace invoker::transport {

// The whole of its main. Returns the exit status.
int RunSelfTestProgram(int argc, char** argv);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_PROGRAM_H_
