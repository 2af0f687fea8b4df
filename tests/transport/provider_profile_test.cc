#include "src/transport/provider/provider_profile.h"

#include <cctype>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

using testing::HasSubstr;

// Those that libfabric has on every machine.
constexpr const char* kAlwaysThere[] = {"tcp;ofi_rxm", "shm", "sockets", "udp;ofi_rxd"};

constexpr char kUnknown[] = "an unknown one";

// Every row's provider, and one that has none.
std::vector<std::string> AllProviders() {
  std::vector<std::string> providers;
  for (const ProfileRow& row : Rows()) providers.emplace_back(row.provider);
  providers.emplace_back(kUnknown);
  return providers;
}

// An fi_info as a willing provider would answer: everything that the row asked for and no demands.
InfoPtr Granted(const ProfileRow& row, const std::string& provider) {
  InfoPtr info = MakeHints(row, provider);
  info->mode = 0;
  info->tx_attr->msg_order = row.message_order | FI_ORDER_SAW;
  info->rx_attr->msg_order = row.message_order | FI_ORDER_SAW;
  info->tx_attr->size = 512;
  info->rx_attr->size = 512;
  info->ep_attr->max_msg_size = 1 << 30;
  info->domain_attr->mr_mode = 0;
  info->domain_attr->mr_key_size = 8;
  info->domain_attr->cq_data_size = 8;
  return info;
}

// With the libfabric that runs.
Notification Strongest(const ProfileRow& row) {
  return ImmediatesKill(row) ? Notification::kSendAfterWrite : row.notification;
}

class EveryRow : public testing::TestWithParam<std::string> {
 protected:
  const ProfileRow& row() const { return FindRow(GetParam()); }
};

TEST_P(EveryRow, HintsAskForWhatTheRowSaysAndOnlyForRdm) {
  const InfoPtr hints = MakeHints(row(), GetParam());
  EXPECT_EQ(hints->caps, row().caps);
  EXPECT_EQ(hints->ep_attr->type, FI_EP_RDM);
  EXPECT_EQ(hints->tx_attr->msg_order, row().message_order);
  EXPECT_EQ(hints->rx_attr->msg_order, row().message_order);
  EXPECT_EQ(hints->fabric_attr->prov_name, GetParam());
  EXPECT_EQ(hints->domain_attr->cq_data_size, row().cq_data_request);
  EXPECT_EQ(hints->domain_attr->data_progress, row().data_progress);
  // One thread may sleep in the queue while another drives.
  EXPECT_EQ(hints->domain_attr->threading,
            row().wait == WaitMethod::kSread ? FI_THREAD_SAFE : FI_THREAD_DOMAIN);
  EXPECT_EQ(hints->mode & FI_MSG_PREFIX, 0u);
}

TEST_P(EveryRow, FullGrantGivesTheRow) {
  const absl::StatusOr<Profile> profile = Resolve(row(), *Granted(row(), GetParam()));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->notification, Strongest(row()));
  EXPECT_EQ(profile->send_order, row().send_order);
  EXPECT_EQ(profile->wait, row().wait);
  EXPECT_EQ(profile->same_host_only, row().same_host_only);
  EXPECT_EQ(profile->receive_buffers, row().receive_buffers);
  EXPECT_EQ(profile->transmit_depth, 512u);
}

TEST_P(EveryRow, OrderThatIsNotGrantedOnBothSidesIsNotUsed) {
  InfoPtr info = Granted(row(), GetParam());
  info->tx_attr->msg_order = FI_ORDER_SAS;
  EXPECT_EQ(Resolve(row(), *info)->send_order, SendOrder::kAfterDelivery);
  info = Granted(row(), GetParam());
  info->rx_attr->msg_order = FI_ORDER_SAS;
  EXPECT_EQ(Resolve(row(), *info)->send_order, SendOrder::kAfterDelivery);
}

TEST_P(EveryRow, ImmediateTooNarrowForTheTokenMeansSendAfterWrite) {
  for (size_t bytes : {0, 2, 3}) {
    InfoPtr info = Granted(row(), GetParam());
    info->domain_attr->cq_data_size = bytes;
    EXPECT_EQ(Resolve(row(), *info)->notification, Notification::kSendAfterWrite) << bytes;
  }
  InfoPtr info = Granted(row(), GetParam());
  info->domain_attr->cq_data_size = 4;
  EXPECT_EQ(Resolve(row(), *info)->notification, Strongest(row()));
}

TEST_P(EveryRow, MemoryModesAreFollowed) {
  InfoPtr info = Granted(row(), GetParam());
  absl::StatusOr<Profile> profile = Resolve(row(), *info);
  EXPECT_EQ(profile->keys, KeyPolicy::kRandom);
  EXPECT_EQ(profile->addressing, Addressing::kOffset);
  EXPECT_FALSE(profile->local_registration);
  EXPECT_FALSE(profile->bind_region_to_endpoint);

  info->domain_attr->mr_mode = FI_MR_PROV_KEY;
  EXPECT_EQ(Resolve(row(), *info)->keys, KeyPolicy::kProvider);
  info->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
  EXPECT_EQ(Resolve(row(), *info)->addressing, Addressing::kVirtual);
  info->domain_attr->mr_mode = FI_MR_LOCAL;
  EXPECT_TRUE(Resolve(row(), *info)->local_registration);
  info->domain_attr->mr_mode = FI_MR_ENDPOINT;
  EXPECT_TRUE(Resolve(row(), *info)->bind_region_to_endpoint);
}

TEST_P(EveryRow, KeysAreAsWideAsTheFabricTakesAndNeverWiderThanOurs) {
  InfoPtr info = Granted(row(), GetParam());
  info->domain_attr->mr_key_size = 4;
  EXPECT_EQ(Resolve(row(), *info)->key_bytes, 4u);
  info->domain_attr->mr_key_size = 16;
  EXPECT_EQ(Resolve(row(), *info)->key_bytes, 8u);
  info->domain_attr->mr_key_size = 0;
  EXPECT_EQ(Resolve(row(), *info)->key_bytes, 8u);
}

TEST_P(EveryRow, ReceivesAreNoMoreThanTheEndpointTakes) {
  InfoPtr info = Granted(row(), GetParam());
  info->rx_attr->size = 16;
  EXPECT_EQ(Resolve(row(), *info)->receive_buffers, 16u);
}

TEST_P(EveryRow, DemandsThatCannotBeMetAreRefusedInWords) {
  InfoPtr info = Granted(row(), GetParam());
  info->domain_attr->mr_mode = FI_MR_MMU_NOTIFY | FI_MR_LOCAL;
  absl::Status status = Resolve(row(), *info).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("memory registration mode"));

  info = Granted(row(), GetParam());
  info->mode = FI_MSG_PREFIX;
  status = Resolve(row(), *info).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("demands mode 0x"));

  info = Granted(row(), GetParam());
  info->ep_attr->type = FI_EP_MSG;
  status = Resolve(row(), *info).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("FI_EP_RDM"));
}

TEST_P(EveryRow, ContextModesAreServed) {
  InfoPtr info = Granted(row(), GetParam());
  info->mode = FI_CONTEXT | FI_CONTEXT2;
  EXPECT_TRUE(Resolve(row(), *info).ok());
}

TEST_P(EveryRow, SleepInTheQueueNeedsADomainThatIsSafeForThreads) {
  InfoPtr info = Granted(row(), GetParam());
  info->domain_attr->threading = FI_THREAD_DOMAIN;
  const WaitMethod narrowed = row().wait == WaitMethod::kSread ? WaitMethod::kBackoff : row().wait;
  EXPECT_EQ(Resolve(row(), *info)->wait, narrowed);
}

TEST_P(EveryRow, CapabilityThatImmediatesNeedAndThatIsNotGrantedMeansSendAfterWrite) {
  InfoPtr info = Granted(row(), GetParam());
  info->caps &= ~FI_RMA_EVENT;
  EXPECT_EQ(Resolve(row(), *info)->notification,
            (row().caps & FI_RMA_EVENT) != 0 ? Notification::kSendAfterWrite : Strongest(row()));
}

TEST_P(EveryRow, AtomicsAreUsedOnlyIfGranted) {
  InfoPtr info = Granted(row(), GetParam());
  info->caps |= FI_ATOMIC;
  EXPECT_TRUE(Resolve(row(), *info)->may_have_atomics);
  info->caps &= ~FI_ATOMIC;
  EXPECT_FALSE(Resolve(row(), *info)->may_have_atomics);
}

TEST_P(EveryRow, EventsOfRegionsFollowTheModeAndTheCapability) {
  for (const bool demanded : {false, true}) {
    for (const bool granted : {false, true}) {
      InfoPtr info = Granted(row(), GetParam());
      info->domain_attr->mr_mode = demanded ? FI_MR_RMA_EVENT : 0;
      info->caps = granted ? info->caps | FI_RMA_EVENT : info->caps & ~FI_RMA_EVENT;
      EXPECT_EQ(Resolve(row(), *info)->bind_region_for_events, demanded && granted);
    }
  }
}

TEST_P(EveryRow, RawKeysAreRefusedByName) {
  InfoPtr info = Granted(row(), GetParam());
  info->domain_attr->mr_mode = FI_MR_RAW;
  const absl::Status status = Resolve(row(), *info).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("raw memory keys"));
}

// Pieces rely on all of it: marks, order and injection.
TEST_P(EveryRow, SendsPiecesOnlyWhereEverythingThatItTakesIsGranted) {
  constexpr size_t kInject = 4096;
  const auto granted = [this] {
    InfoPtr info = Granted(row(), GetParam());
    info->tx_attr->inject_size = kInject;
    info->ep_attr->max_order_waw_size = kMostPieces * kInject;
    return info;
  };
  const auto may_send_pieces = [this](const InfoPtr& info) {
    return Resolve(row(), *info)->may_send_pieces;
  };
  EXPECT_EQ(may_send_pieces(granted()), row().may_send_pieces);
  InfoPtr info = granted();
  info->tx_attr->msg_order &= ~FI_ORDER_WAW;
  EXPECT_FALSE(may_send_pieces(info));
  info = granted();
  info->rx_attr->msg_order &= ~FI_ORDER_WAW;
  EXPECT_FALSE(may_send_pieces(info));
  info = granted();
  info->domain_attr->cq_data_size = 4;
  EXPECT_FALSE(may_send_pieces(info));
  info = granted();
  info->tx_attr->inject_size = 0;
  EXPECT_FALSE(may_send_pieces(info));
  info = granted();
  info->ep_attr->max_order_waw_size = kMostPieces * kInject - 1;
  EXPECT_FALSE(may_send_pieces(info));
}

TEST_P(EveryRow, IsConsistent) {
  EXPECT_GT(row().receive_buffers, 0u);
  EXPECT_LE(row().immediate_bytes, 8u);
  EXPECT_NE(row().caps & FI_RMA, 0u);
  EXPECT_NE(row().caps & FI_MSG, 0u);
  // The order of a pipelined send must have been asked for.
  if (row().send_order == SendOrder::kPipelined) {
    EXPECT_NE(row().message_order & FI_ORDER_SAW, 0u);
  }
  // So must the order of pieces.
  if (row().may_send_pieces) {
    EXPECT_NE(row().message_order & FI_ORDER_WAW, 0u);
  }
  for (const EnvironmentDefault& variable : row().environment) {
    EXPECT_STRNE(variable.name, "");
    EXPECT_STRNE(variable.value, "");
  }
  EXPECT_FALSE(WaitMethodName(row().wait).empty());
  EXPECT_FALSE(EvidenceName(row().evidence).empty());
}

std::string NameOfRow(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& character : name) {
    if (isalnum(static_cast<unsigned char>(character)) == 0) character = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(, EveryRow, testing::ValuesIn(AllProviders()), NameOfRow);

TEST(MakeHints, FindsTheProvidersThatEveryMachineHas) {
  for (const char* provider : kAlwaysThere) {
    const ProfileRow& row = FindRow(provider);
    const InfoPtr hints = MakeHints(row, provider);
    fi_info* raw = nullptr;
    ASSERT_EQ(fi_getinfo(kApiVersion, nullptr, nullptr, 0, hints.get(), &raw), 0);
    const InfoPtr list(raw);
    const absl::StatusOr<Profile> profile = Resolve(row, *list);
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_EQ(profile->provider, provider);
    EXPECT_EQ(profile->notification, Strongest(row));
    EXPECT_EQ(profile->send_order, row.send_order);
    EXPECT_GT(profile->transmit_depth, 0u);
  }
}

TEST(FindRow, EveryFabricOfTheMissionHasARowOfItsOwn) {
  for (const char* provider : {"tcp;ofi_rxm", "verbs;ofi_rxm", "efa", "gni", "shm", "sockets",
                               "udp;ofi_rxd", "net", "tcp", "psm2", "psm3", "cxi", "opx"}) {
    EXPECT_EQ(FindRow(provider).provider, provider);
  }
}

TEST(FindRow, NamesMatchWhole) {
  for (const char* provider : {"", "tc", "tcp;ofi_rxm ", "ofi_rxm", "SHM", "shm;x", "verbs"}) {
    EXPECT_EQ(FindRow(provider).provider, "") << provider;
  }
}

TEST(Rows, NamesAndRanksAreDistinct) {
  std::set<std::string> names;
  std::set<uint32_t> ranks;
  for (const ProfileRow& row : Rows()) {
    EXPECT_TRUE(names.insert(std::string(row.provider)).second) << row.provider;
    EXPECT_TRUE(row.auto_rank == 0 || ranks.insert(row.auto_rank).second) << row.provider;
  }
}

TEST(Rows, AutomaticChoiceIsInTheOrderOfRanks) {
  uint32_t last = 0;
  for (const ProfileRow* row : AutoRows()) {
    EXPECT_GT(row->auto_rank, last) << row->provider;
    last = row->auto_rank;
  }
  EXPECT_GT(last, 0u);
}

TEST(WhyNotInLibfabric, SaysTheReleaseThatRunsAndTheOneThatIsNeeded) {
  ProfileRow row = FindRow(kUnknown);
  row.provider = "x";
  EXPECT_EQ(WhyNotInLibfabric(row), "");
  row.first_version = row.last_version = fi_version();
  EXPECT_EQ(WhyNotInLibfabric(row), "");
  row.first_version = row.last_version = FI_VERSION(99, 1);
  EXPECT_THAT(WhyNotInLibfabric(row), testing::EndsWith(" has no provider x: it came with 99.1"));
  row.first_version = row.last_version = FI_VERSION(0, 9);
  EXPECT_THAT(WhyNotInLibfabric(row), testing::EndsWith(" has no provider x: it ended with 0.9"));
}

TEST(ImmediatesKill, FromTheReleaseOnThatTheRowNames) {
  ProfileRow row = FindRow(kUnknown);
  EXPECT_FALSE(ImmediatesKill(row));
  row.immediates_kill_since = fi_version();
  EXPECT_TRUE(ImmediatesKill(row));
  row.immediates_kill_since = FI_VERSION(99, 1);
  EXPECT_FALSE(ImmediatesKill(row));
}

TEST(FindRow, UnknownProviderIsTrustedWithNothing) {
  const ProfileRow& row = FindRow(kUnknown);
  EXPECT_EQ(row.provider, "");
  EXPECT_EQ(row.send_order, SendOrder::kAfterDelivery);
  EXPECT_EQ(row.message_order, 0u);
  EXPECT_EQ(row.wait, WaitMethod::kBackoff);
  EXPECT_LE(row.immediate_bytes, 4u);
  EXPECT_TRUE(row.start_per_process);
  // An order that is granted without having been claimed is not used either.
  EXPECT_EQ(Resolve(row, *Granted(row, kUnknown))->send_order, SendOrder::kAfterDelivery);
}

TEST(DefaultProvider, HasARowAndWorksBetweenHosts) {
  EXPECT_EQ(FindRow(DefaultProvider()).provider, DefaultProvider());
  EXPECT_FALSE(FindRow(DefaultProvider()).same_host_only);
}

}  // namespace
}  // namespace invoker::transport
