// What invoker_server starts, once, and forks the executors of leases from. Not for people.

#include "src/isolation/process/executor_main.h"

int main(int argc, char** argv) { return invoker::RunStartedByServer(argc, argv, {}); }
