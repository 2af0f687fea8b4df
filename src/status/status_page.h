// The page that people look at in a browser. It asks for the status once a second, and needs
// nothing from any other server.

#ifndef INVOKER_SRC_STATUS_STATUS_PAGE_H_
#define INVOKER_SRC_STATUS_STATUS_PAGE_H_

#include "absl/strings/string_view.h"

namespace invoker::status {

inline constexpr char kPageContentType[] = "text/html; charset=utf-8";
inline constexpr char kJsonContentType[] = "application/json";
inline constexpr char kJsonPath[] = "/status.json";  // where the page finds it

// The same for all servers: what differs is in the status.
absl::string_view StatusPage();

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_STATUS_PAGE_H_
