// What a client would show a server: certificates with their dates, and a token.

#ifndef INVOKER_TOOLS_DOCTOR_CREDENTIALS_H_
#define INVOKER_TOOLS_DOCTOR_CREDENTIALS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "invoker/client_credentials.h"
#include "tools/doctor/finding.h"

namespace invoker::tools {

// `given` is completed from the environment.
std::vector<Finding> ExamineCredentials(const ClientCredentials& given, absl::Time now);

// The certificates that a worker's configuration names, with their dates. None without the file.
std::vector<Finding> ExamineServersFile(const std::string& path, absl::Time now);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_DOCTOR_CREDENTIALS_H_
