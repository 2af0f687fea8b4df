// What all sessions of this process's clients have done together, those that have ended included.
//
// Any thread. To read takes each session's turn lock, which a polling thread gives way with.

#ifndef INVOKER_SRC_INVOKE_CONNECT_CLIENT_TOTALS_H_
#define INVOKER_SRC_INVOKE_CONNECT_CLIENT_TOTALS_H_

#include <cstdint>

#include "src/bootstrap/messages/client_status.h"
#include "src/invoke/connect/connection.h"

namespace invoker {

class ClientTotals {
 public:
  // An open connection's, until it ends.
  static void Add(const Connection* connection);
  static void Remove(const Connection* connection);

  // A call of a group is about to be tried again.
  static void CountRetry();

  static bootstrap::ClientStatus Read();
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECT_CLIENT_TOTALS_H_
