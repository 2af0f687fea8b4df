// What gRPC and protobuf have to say, which would otherwise go to standard error as it is.

#ifndef INVOKER_SRC_LOG_LIBRARY_LOGS_H_
#define INVOKER_SRC_LOG_LIBRARY_LOGS_H_

namespace invoker {

// From now on their messages are in the log: of each library one error and one other message a
// minute at most, since any client can cause them. Fatal ones are always there.
void RouteLibraryLogs();

}  // namespace invoker

#endif  // INVOKER_SRC_LOG_LIBRARY_LOGS_H_
