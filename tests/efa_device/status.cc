#include "tests/efa_device/status.h"

namespace efa_device {

ibv_wc_status ToVerbs(Status status) {
  switch (status) {
    case Status::kOk:
      return IBV_WC_SUCCESS;
    case Status::kFlushed:
      return IBV_WC_WR_FLUSH_ERR;
    case Status::kInternalError:
    case Status::kUnsupportedOperation:
    case Status::kInvalidAddressHandle:
      return IBV_WC_LOC_QP_OP_ERR;
    case Status::kInvalidLocalKey:
      return IBV_WC_LOC_PROT_ERR;
    case Status::kBadLocalLength:
      return IBV_WC_LOC_LEN_ERR;
    case Status::kRemoteAbort:
      return IBV_WC_REM_ABORT_ERR;
    case Status::kBadDestinationQueuePair:
      return IBV_WC_REM_INV_RD_REQ_ERR;
    case Status::kReceiverNotReady:
      return IBV_WC_RNR_RETRY_EXC_ERR;
    case Status::kBadRemoteLength:
      return IBV_WC_REM_INV_REQ_ERR;
    case Status::kBadRemoteStatus:
      return IBV_WC_BAD_RESP_ERR;
    case Status::kUnresponsiveRemote:
      return IBV_WC_RESP_TIMEOUT_ERR;
    case Status::kBadRemoteAddress:
      break;
  }
  return IBV_WC_GENERAL_ERR;
}

}  // namespace efa_device
