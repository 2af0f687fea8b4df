#include "src/security/access_control.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/log/log.h"
#include "src/security/token.h"

namespace invoker::security {
namespace {

absl::Status NoToken() {
  return absl::UnauthenticatedError(
      "this server asks for a token, and none came along: name the file that has it by "
      "--token-file, INVOKER_TOKEN_FILE or token_file=");
}

absl::Status WrongToken() {
  return absl::UnauthenticatedError(
      "the token that came along is none of this server's: it is another server's, or has been "
      "replaced by a new one");
}

}  // namespace

absl::Status CheckSeesOthers(const Caller& caller) {
  if (caller.tenant == nullptr || caller.tenant->sees_others_usage) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("this server's policy shows tenant \"",
                                                  caller.name,
                                                  "\" its own usage only (sees_others_usage)"));
}

absl::StatusOr<std::unique_ptr<AccessControl>> AccessControl::Open(AccessOptions options) {
  if (!options.token_file.empty() && !options.policy_file.empty()) {
    return absl::InvalidArgumentError(
        "--token-file and --policy cannot both be given: with a policy, tokens are its tenants'");
  }
  std::unique_ptr<AccessControl> control(new AccessControl(std::move(options)));
  if (!control->required()) return control;
  // Before the file is read: what is written meanwhile is seen the next time.
  const FileStamp stamp = StampOf(control->path());
  absl::StatusOr<std::shared_ptr<const State>> state = control->Read();
  if (!state.ok()) return state.status();
  absl::MutexLock lock(&control->mutex_);
  control->stamp_ = stamp;
  control->state_ = *std::move(state);
  return control;
}

absl::StatusOr<std::shared_ptr<const AccessControl::State>> AccessControl::Read() const {
  auto state = std::make_shared<State>();
  if (!options_.policy_file.empty()) {
    absl::StatusOr<Policy> policy = Policy::Read(options_.policy_file);
    if (!policy.ok()) return policy.status();
    state->policy = *std::move(policy);
    return state;
  }
  absl::StatusOr<std::vector<std::string>> tokens = ReadTokenFile(options_.token_file);
  if (!tokens.ok()) return tokens.status();
  for (const std::string& token : *tokens) {
    absl::StatusOr<Sha256Digest> digest = HashOf(token);
    if (!digest.ok()) return digest.status();
    state->tokens.push_back(*digest);
  }
  return state;
}

void AccessControl::ReadAgain(const FileStamp& now) {
  absl::StatusOr<std::shared_ptr<const State>> read = Read();
  if (!read.ok() && WorthAnotherTry(read.status())) {
    stamp_ = {};  // whatever the file is then, it is read the next time
    if (!std::exchange(waiting_, true)) {
      LogError(absl::StrCat(read.status().message(), "; what ", path(),
                            " said before stays in force until it can be read"));
    }
    return;
  }
  waiting_ = false;
  stamp_ = now;
  if (!read.ok()) {
    return LogError(
        absl::StrCat(read.status().message(), "; what ", path(), " said before stays in force"));
  }
  state_ = *std::move(read);
  LogInfo(options_.policy_file.empty()
              ? absl::StrCat("tokens read again from ", path(), ": ", state_->tokens.size())
              : absl::StrCat("policy read again from ", path(), ": ",
                             state_->policy.tenants().size(), " tenants"));
}

std::shared_ptr<const AccessControl::State> AccessControl::Current() {
  const FileStamp now = StampOf(path());
  absl::MutexLock lock(&mutex_);
  if (now != stamp_) ReadAgain(now);
  return state_;
}

void AccessControl::Reload() {
  if (!required()) return;
  absl::MutexLock lock(&mutex_);
  waiting_ = false;
  ReadAgain(StampOf(path()));
}

absl::StatusOr<Caller> AccessControl::Identify(absl::string_view authorization, Shown certificate) {
  if (!required()) return Caller();
  const std::shared_ptr<const State> state = Current();
  absl::StatusOr<Sha256Digest> digest = Sha256Digest();
  absl::string_view token = authorization;
  const bool sent = !authorization.empty();
  if (sent) {
    if (absl::ConsumePrefix(&token, kTokenScheme) && token.size() <= kMaxTokenBytes) {
      digest = HashOf(token);
    } else {
      digest = absl::UnauthenticatedError("");
    }
  }
  bool known = false;
  Caller caller;
  if (digest.ok() && !options_.policy_file.empty()) {
    certificate.token = sent ? &*digest : nullptr;
    caller.tenant = state->policy.Identify(certificate);
    known = caller.tenant != nullptr;
    if (known) caller.name = caller.tenant->name;
  } else if (digest.ok() && sent) {
    for (const Sha256Digest& each : state->tokens) known |= SameDigest(each, *digest);
  }
  if (known) return caller;
  refused_.fetch_add(1, std::memory_order_relaxed);
  if (sent) return WrongToken();
  if (!options_.policy_file.empty() && !certificate.certificate_subject.empty()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the certificate of \"", certificate.certificate_subject,
                     "\" is no tenant's by this server's policy, and no token came along"));
  }
  return NoToken();
}

}  // namespace invoker::security
