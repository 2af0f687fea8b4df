// Runs the programs of this directory, each of which shows a fault of libfabric.

#ifndef INVOKER_TESTS_LIBFABRIC_FAULTS_SIGNAL_THAT_ENDS_H_
#define INVOKER_TESTS_LIBFABRIC_FAULTS_SIGNAL_THAT_ENDS_H_

#include <string>

namespace invoker::transport {

// Runs `program` and returns the signal that ended it. 0: none, it ended with status 0. With any
// other status the test fails.
int SignalThatEnds(const std::string& program, const char* argument);

}  // namespace invoker::transport

#endif  // INVOKER_TESTS_LIBFABRIC_FAULTS_SIGNAL_THAT_ENDS_H_
