// `invoker policy`: what a server's policy means, before a server has it, and the digests of tokens
// that go into it. Talks to nobody.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/sha256.h"
#include "src/security/policy.h"
#include "src/security/token.h"
#include "tools/invoker_cli.h"

namespace invoker::tools {
namespace {

int Check(const std::string& file) {
  const absl::StatusOr<security::Policy> policy = security::Policy::Read(file);
  if (!policy.ok()) return Fail(policy.status());
  const absl::Status printed = Print(policy->Explain());
  return printed.ok() ? kExitOk : Fail(printed);
}

int Hash(const std::string& file) {
  const absl::StatusOr<std::vector<std::string>> tokens = security::ReadTokenFile(file);
  if (!tokens.ok()) return Fail(tokens.status());
  std::string text;
  for (const std::string& token : *tokens) {
    const absl::StatusOr<Sha256Digest> digest = HashOf(token);
    if (!digest.ok()) return Fail(digest.status());
    absl::StrAppend(&text, "token_sha256: \"", digest->ToHex(), "\"\n");
  }
  const absl::Status printed = Print(text);
  return printed.ok() ? kExitOk : Fail(printed);
}

}  // namespace

Command AddPolicyCommand(CLI::App* app, CLI::App** command) {
  *command = app->add_subcommand("policy", "Checks the file of invoker_server's --policy.");
  (*command)->require_subcommand(1);
  auto file = std::make_shared<std::string>();
  CLI::App* check = (*command)->add_subcommand(
      "check", "Says what each tenant may do by it, or which line is wrong.");
  CLI::App* hash = (*command)->add_subcommand(
      "hash", "Prints, for a tenant's entry in it, the digest of each token in a token file.");
  for (CLI::App* each : {check, hash}) {
    each->add_option("file", *file)->type_name("FILE")->required();
    each->footer(kExitStatusHelp);
  }
  return [file, check] { return check->parsed() ? Check(*file) : Hash(*file); };
}

}  // namespace invoker::tools
