// Policy::Parse: from protobuf's text format to what a policy means, with places in errors.

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/policy.pb.h"
#include "src/security/policy.h"
#include "src/security/watched_file.h"

namespace invoker::security {
namespace {

using google::protobuf::TextFormat;

constexpr size_t kMaxNameBytes = 128;

// The first error's place and words.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(const std::string& file) : file_(file) {}

  void AddError(int line, int column, const std::string& message) override {
    if (!status_.ok()) return;
    // Lines are counted from 0; -1: what is wrong is nowhere in particular.
    const std::string place = line < 0 ? "" : absl::StrCat(":", line + 1, ":", column + 1);
    status_ = absl::InvalidArgumentError(absl::StrCat(file_, place, ": ", message));
  }
  const absl::Status& status() const { return status_; }

 private:
  const std::string file_;
  absl::Status status_;
};

// One tenant's fields, checked.
class TenantParser {
 public:
  TenantParser(const policy::v1::Tenant& message, const TextFormat::ParseInfoTree* places,
               std::string file)
      : message_(message), places_(places), file_(std::move(file)) {}

  absl::StatusOr<Tenant> Parse() {
    absl::Status status = ParseIdentity();
    if (status.ok()) status = ParseLimits();
    if (status.ok()) status = ParseUpload();
    if (!status.ok()) return status;
    for (int i = 0; i < message_.function_size(); ++i) {
      if (message_.function(i).empty()) return Wrong("function", i, "is empty; write * for all");
      tenant_.functions.push_back(message_.function(i));
    }
    tenant_.sees_others_usage = message_.sees_others_usage();
    tenant_.operates = message_.operates();
    tenant_.contributes_usage = message_.contributes_usage();
    return tenant_;
  }

  absl::Status Wrong(absl::string_view field, int index, absl::string_view what) const {
    const auto* descriptor = policy::v1::Tenant::descriptor()->FindFieldByName(std::string(field));
    const TextFormat::ParseLocation place =
        places_ != nullptr && descriptor != nullptr
            ? places_->GetLocation(descriptor, descriptor->is_repeated() ? index : -1)
            : TextFormat::ParseLocation();
    const std::string where =
        place.line < 0 ? "" : absl::StrCat(":", place.line + 1, ":", place.column + 1);
    return absl::InvalidArgumentError(
        absl::StrCat(file_, where, ": ", field, " of tenant \"", message_.name(), "\" ", what));
  }

 private:
  absl::Status ParseIdentity() {
    const std::string& name = message_.name();
    if (name.empty() || name.size() > kMaxNameBytes) {
      return Wrong("name", 0,
                   absl::StrCat("has ", name.size(), " characters; it needs 1 to ", kMaxNameBytes));
    }
    for (const char byte : name) {
      if (!absl::ascii_isprint(static_cast<unsigned char>(byte))) {
        return Wrong("name", 0, "has a byte that is not a printable ASCII character");
      }
    }
    tenant_.name = name;
    for (int i = 0; i < message_.token_sha256_size(); ++i) {
      const std::string hex = absl::AsciiStrToLower(message_.token_sha256(i));
      const absl::optional<Sha256Digest> digest = Sha256Digest::FromHex(hex);
      if (!digest.has_value()) {
        // What stands there may be the token itself.
        return Wrong("token_sha256", i,
                     "is not 64 hexadecimal digits; `invoker policy hash FILE` prints those of the "
                     "token in a file");
      }
      tenant_.tokens.push_back(*digest);
    }
    for (int i = 0; i < message_.certificate_subject_size(); ++i) {
      if (message_.certificate_subject(i).empty())
        return Wrong("certificate_subject", i, "is empty");
      tenant_.certificate_subjects.push_back(message_.certificate_subject(i));
    }
    for (int i = 0; i < message_.certificate_name_size(); ++i) {
      if (message_.certificate_name(i).empty()) return Wrong("certificate_name", i, "is empty");
      tenant_.certificate_names.push_back(message_.certificate_name(i));
    }
    tenant_.anyone = message_.anyone();
    if (tenant_.tokens.empty() && tenant_.certificate_subjects.empty() &&
        tenant_.certificate_names.empty() && !tenant_.anyone) {
      return Wrong("name", 0,
                   "is nobody's: give it a token_sha256, a certificate_subject or a "
                   "certificate_name");
    }
    return absl::OkStatus();
  }

  absl::Status ParseUpload() {
    const std::string& upload = message_.upload();
    tenant_.may_upload_libraries = upload == "library" || upload == "all";
    tenant_.may_upload_python = upload == "python" || upload == "all";
    if (tenant_.may_upload_libraries || tenant_.may_upload_python || upload.empty() ||
        upload == "none") {
      return absl::OkStatus();
    }
    return Wrong("upload", 0,
                 absl::StrCat("is \"", upload, "\"; it is none, library, python or all"));
  }

  absl::Status ParseLimits() {
    if (message_.has_max_leases()) tenant_.max_leases = message_.max_leases();
    if (message_.has_max_cores()) tenant_.max_cores = message_.max_cores();
    if (message_.has_max_sessions()) tenant_.max_sessions = message_.max_sessions();
    if (!message_.max_memory().empty() && !ParseBytes(message_.max_memory())) {
      return Wrong("max_memory", 0,
                   absl::StrCat("is \"", message_.max_memory(),
                                "\", which is no size; write \"512M\" or \"16G\""));
    }
    if (!message_.max_ttl().empty() &&
        (!absl::ParseDuration(message_.max_ttl(), &tenant_.max_ttl) ||
         tenant_.max_ttl <= absl::ZeroDuration())) {
      return Wrong("max_ttl", 0,
                   absl::StrCat("is \"", message_.max_ttl(),
                                "\", which is no time; write \"90s\" or \"1h\""));
    }
    return absl::OkStatus();
  }

  bool ParseBytes(std::string text) {
    const absl::string_view units = "KMGT";
    const size_t unit = units.find(absl::ascii_toupper(static_cast<unsigned char>(text.back())));
    const size_t shift = unit == absl::string_view::npos ? 0 : 10 * (unit + 1);
    if (shift != 0) text.pop_back();
    uint64_t number = 0;
    if (!absl::SimpleAtoi(text, &number) || number > UINT64_MAX >> shift) return false;
    tenant_.max_memory_bytes = number << shift;
    return true;
  }

  const policy::v1::Tenant& message_;
  const TextFormat::ParseInfoTree* const places_;
  const std::string file_;
  Tenant tenant_;
};

// What no two tenants may have in common.
class Taken {
 public:
  // Nullptr, or the field of the tenant that another one has too.
  const char* Add(const Tenant& tenant, int* index) {
    *index = 0;
    if (!names_.insert(tenant.name).second) return "name";
    for (size_t i = 0; i < tenant.tokens.size(); ++i) {
      *index = static_cast<int>(i);
      if (!tokens_.insert(tenant.tokens[i].ToBytes()).second) return "token_sha256";
    }
    for (size_t i = 0; i < tenant.certificate_subjects.size(); ++i) {
      *index = static_cast<int>(i);
      if (!subjects_.insert(tenant.certificate_subjects[i]).second) return "certificate_subject";
    }
    for (size_t i = 0; i < tenant.certificate_names.size(); ++i) {
      *index = static_cast<int>(i);
      if (!certificate_names_.insert(tenant.certificate_names[i]).second) return "certificate_name";
    }
    *index = 0;
    if (tenant.anyone && std::exchange(anyone_, true)) return "anyone";
    return nullptr;
  }

 private:
  std::set<std::string> names_, tokens_, subjects_, certificate_names_;
  bool anyone_ = false;
};

}  // namespace

absl::StatusOr<Policy> Policy::Parse(absl::string_view text, const std::string& file) {
  FirstError error(file);
  TextFormat::ParseInfoTree places;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&places);
  // A message in a message is as deep as it gets.
  parser.SetRecursionLimit(8);
  policy::v1::Policy message;
  if (!parser.ParseFromString(std::string(text), &message)) {
    if (!error.status().ok()) return error.status();
    return absl::InvalidArgumentError(absl::StrCat(file, ": this is no policy"));
  }
  Policy policy;
  Taken taken;
  const auto* field = policy::v1::Policy::descriptor()->FindFieldByName("tenant");
  for (int i = 0; i < message.tenant_size(); ++i) {
    TenantParser one(message.tenant(i), places.GetTreeForNested(field, i), file);
    absl::StatusOr<Tenant> tenant = one.Parse();
    if (!tenant.ok()) return tenant.status();
    int index = 0;
    if (const char* twice = taken.Add(*tenant, &index); twice != nullptr) {
      return one.Wrong(twice, index, "stands in the policy before: nothing may stand twice");
    }
    policy.tenants_.push_back(std::make_shared<const Tenant>(*std::move(tenant)));
  }
  return policy;
}

absl::StatusOr<Policy> Policy::Read(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile("the policy", path, Secrecy::kPublic);
  if (!text.ok()) return text.status();
  return Parse(*text, path);
}

}  // namespace invoker::security
