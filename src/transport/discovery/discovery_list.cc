#include "src/transport/discovery/discovery_list.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/transport/base/status.h"
#include "src/transport/discovery/fabric_query.h"
#include "src/transport/discovery/source_address.h"

namespace invoker::transport {
namespace {

absl::string_view TextOf(const char* text) { return text == nullptr ? "" : text; }

// What makes two entries the same fabric to a user. fi_getinfo repeats some of them, with
// capabilities that differ.
std::string IdentityOf(const fi_info& info) {
  return absl::StrCat(info.fabric_attr->prov_name, "\n", TextOf(info.fabric_attr->name), "\n",
                      TextOf(info.domain_attr->name), "\n", DescribeSource(info));
}

class Listing {
 public:
  absl::Status Add(const fi_info& info, absl::StatusOr<Profile> profile) {
    if (!seen_.insert(IdentityOf(info)).second) return absl::OkStatus();
    ListedFabric listed;
    listed.choice.info.reset(fi_dupinfo(&info));
    if (listed.choice.info == nullptr) {
      return absl::ResourceExhaustedError("fi_dupinfo: out of memory");
    }
    const IpAddress source = SourceOf(info);
    if (source.is_v6 && source.scope == IpScope::kLink) {
      profile = absl::UnimplementedError(
          absl::StrCat(source.text,
                       " is link-local, and means nothing to a peer without an interface of its "
                       "own"));
    }
    if (profile.ok()) {
      listed.choice.profile = *std::move(profile);
    } else {
      listed.choice.profile.provider = info.fabric_attr->prov_name;
      listed.usable = profile.status();
    }
    fabrics_.push_back(std::move(listed));
    return absl::OkStatus();
  }

  bool Has(const fi_info& info) const { return seen_.count(IdentityOf(info)) > 0; }

  std::vector<ListedFabric> Take() && { return std::move(fabrics_); }

 private:
  std::set<std::string> seen_;
  std::vector<ListedFabric> fabrics_;
};

// The rows that an automatic choice tries, in its order, and then the others.
std::vector<const ProfileRow*> RowsInOrder() {
  std::vector<const ProfileRow*> rows = AutoRows();
  for (const ProfileRow& row : Rows()) {
    if (std::find(rows.begin(), rows.end(), &row) == rows.end()) rows.push_back(&row);
  }
  return rows;
}

// The conservative row's hints, with every demand allowed that Resolve can put into words.
InfoPtr PermissiveHints(absl::string_view provider) {
  InfoPtr hints = MakeHints(FindRow(""), provider);
  if (hints == nullptr) return hints;
  hints->mode |= FI_MSG_PREFIX | FI_ASYNC_IOV | FI_RX_CQ_DATA;
  hints->domain_attr->mr_mode |= FI_MR_RAW | FI_MR_MMU_NOTIFY | FI_MR_HMEM | FI_MR_COLLECTIVE;
  hints->domain_attr->threading = FI_THREAD_UNSPEC;
  hints->domain_attr->data_progress = FI_PROGRESS_UNSPEC;
  hints->domain_attr->resource_mgmt = FI_RM_UNSPEC;
  return hints;
}

// Why an entry that only the permissive hints found cannot be used, or the profile of a provider
// without a row that will do.
absl::StatusOr<Profile> ProfileOfRest(const fi_info& info) {
  const absl::string_view provider = info.fabric_attr->prov_name;
  const ProfileRow& row = FindRow(provider);
  absl::StatusOr<Profile> profile = Resolve(row, info);
  if (!profile.ok()) return profile;
  if (!row.unserved_fabric.empty() && row.unserved_fabric == TextOf(info.fabric_attr->name)) {
    return absl::UnimplementedError(absl::StrCat("fabric \"", row.unserved_fabric,
                                                 "\" of provider ", provider,
                                                 " makes demands that a session of "
                                                 "Invoker cannot meet"));
  }
  // A user of the fabric asks with its row's hints.
  InfoPtr hints = MakeHints(row, provider);
  if (hints == nullptr) return absl::ResourceExhaustedError("fi_allocinfo: out of memory");
  const QueryResult asked = QueryFabrics(row, provider, hints.get(), "");
  const std::string identity = IdentityOf(info);
  for (const fi_info* entry : asked.entries) {
    if (IdentityOf(*entry) == identity) return Resolve(row, *entry);
  }
  return absl::UnimplementedError(absl::StrCat(
      "provider ", provider, " is there, but does not offer what Invoker asks of it ", "(caps 0x",
      absl::Hex(hints->caps), ", message order 0x", absl::Hex(row.message_order),
      "): ", ToStatus("fi_getinfo", asked.code).message()));
}

}  // namespace

absl::StatusOr<std::vector<ListedFabric>> ListFabrics(absl::string_view provider) {
  Listing listing;
  for (const ProfileRow* row : RowsInOrder()) {
    if (!provider.empty() && provider != row->provider) continue;
    InfoPtr hints = MakeHints(*row, row->provider);
    if (hints == nullptr) return absl::ResourceExhaustedError("fi_allocinfo: out of memory");
    const QueryResult found = QueryFabrics(*row, row->provider, hints.get(), "");
    for (const fi_info* entry : found.entries) {
      if (absl::Status status = listing.Add(*entry, Resolve(*row, *entry)); !status.ok()) {
        return status;
      }
    }
  }
  InfoPtr hints = PermissiveHints(provider);
  if (hints == nullptr) return absl::ResourceExhaustedError("fi_allocinfo: out of memory");
  const QueryResult rest = QueryFabrics(FindRow(""), provider, hints.get(), "");
  for (const fi_info* entry : rest.entries) {
    if (listing.Has(*entry)) continue;
    if (absl::Status status = listing.Add(*entry, ProfileOfRest(*entry)); !status.ok()) {
      return status;
    }
  }
  return std::move(listing).Take();
}

}  // namespace invoker::transport
