// Which of a worker's functions a tenant may call, and what it is told of the others: nothing but
// that their ids are taken. Pure: any thread.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_ALLOWED_FUNCTIONS_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_ALLOWED_FUNCTIONS_H_

#include <memory>
#include <vector>

#include "src/bootstrap/messages/messages.h"
#include "src/security/access_control.h"
#include "src/security/tenant.h"

namespace invoker::bootstrap {

// `functions` are the server's own, by id. What comes after them is what the lease's client has
// uploaded, and its own to call, where the lease has executors of its own. nullptr: the caller may
// call everything.
inline std::shared_ptr<const FunctionFilter> FilterFor(const security::Caller& caller,
                                                       const std::vector<FunctionInfo>& functions,
                                                       bool own_executors) {
  if (caller.tenant == nullptr) return nullptr;
  auto filter = std::make_shared<FunctionFilter>(/*later_ones=*/own_executors);
  for (const FunctionInfo& function : functions) {
    filter->Add(caller.tenant->MayCall(function.name));
  }
  return filter;
}

inline void HideForbidden(const FunctionFilter* filter, std::vector<FunctionInfo>* functions) {
  if (filter == nullptr) return;
  for (size_t id = 0; id < functions->size(); ++id) {
    if (!filter->Allows(static_cast<uint16_t>(id))) (*functions)[id] = FunctionInfo();
  }
}

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_ALLOWED_FUNCTIONS_H_
