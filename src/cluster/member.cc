#include "src/cluster/member.h"

#include <google/protobuf/util/json_util.h>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/cluster.pb.h"
#include "src/bootstrap/messages/host_port.h"

namespace invoker::cluster {
namespace {

constexpr absl::string_view kRoot = "/invoker/";

std::string Print(const google::protobuf::Message& message) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  // Fails only for messages with types that are not linked in.
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json;
}

absl::Status Read(absl::string_view json, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data(), json.size()), message, options);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it is no JSON of a member: ", std::string(status.message())));
}

}  // namespace

std::string ToJson(const Member& member) {
  v1::Member message;
  message.set_server(member.server);
  message.set_incarnation(FormatIncarnation(member.incarnation));
  message.set_version(member.version);
  for (const std::string& fabric : member.fabrics) message.add_fabrics(fabric);
  message.set_executors(member.executors);
  message.set_cores(member.cores);
  message.set_memory_bytes(member.memory_bytes);
  message.set_python(member.python);
  for (const std::string& function : member.functions) message.add_functions(function);
  for (const auto& [name, value] : member.labels) (*message.mutable_labels())[name] = value;
  return Print(message);
}

std::string ToJson(const Load& load) {
  v1::Load message;
  message.set_free_cores(load.free_cores);
  message.set_free_memory_bytes(load.free_memory_bytes);
  message.set_waiting(load.waiting);
  return Print(message);
}

absl::StatusOr<Member> ParseMember(absl::string_view json) {
  v1::Member message;
  if (absl::Status status = Read(json, &message); !status.ok()) return status;
  Member member;
  member.server = message.server();
  if (absl::Status status = bootstrap::ParseHostPort(member.server).status(); !status.ok()) {
    return status;
  }
  if (message.incarnation().size() != 16 ||
      !absl::SimpleHexAtoi(message.incarnation(), &member.incarnation) || member.incarnation == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the incarnation of ", member.server, " is not 16 hexadecimal digits"));
  }
  member.version = message.version();
  member.fabrics.assign(message.fabrics().begin(), message.fabrics().end());
  member.executors = message.executors();
  member.cores = message.cores();
  member.memory_bytes = message.memory_bytes();
  member.python = message.python();
  member.functions.assign(message.functions().begin(), message.functions().end());
  member.labels.insert(message.labels().begin(), message.labels().end());
  return member;
}

absl::StatusOr<Load> ParseLoad(absl::string_view json) {
  v1::Load message;
  if (absl::Status status = Read(json, &message); !status.ok()) return status;
  return Load{message.free_cores(), message.free_memory_bytes(), message.waiting()};
}

std::vector<Member> MembersOf(const std::vector<std::string>& servers) {
  std::vector<Member> members(servers.size());
  for (size_t i = 0; i < servers.size(); ++i) members[i].server = servers[i];
  return members;
}

std::string MembersPrefix(absl::string_view cluster) {
  return absl::StrCat(kRoot, cluster, "/members/");
}

std::string LoadsPrefix(absl::string_view cluster) {
  return absl::StrCat(kRoot, cluster, "/loads/");
}

std::string FormatIncarnation(uint64_t incarnation) {
  return absl::StrCat(absl::Hex(incarnation, absl::kZeroPad16));
}

}  // namespace invoker::cluster
