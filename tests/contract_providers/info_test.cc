// What the emulated fabrics tell in fi_getinfo, and what they refuse. The expected values are the
// tables of README.md, written down a second time.

#include <string>

#include "tests/contract_providers/raw_endpoint.h"

namespace contract {
namespace {

InfoPointer Get(const Emulated& fabric, const InfoPointer& hints, int* code = nullptr) {
  Select(fabric);
  InfoPointer info;
  const int result = Ask(hints.get(), &info);
  if (code != nullptr) {
    *code = result;
  } else {
    EXPECT_EQ(result, 0);
  }
  return info;
}

bool Refuses(const Emulated& fabric, const InfoPointer& hints) {
  int code = 0;
  InfoPointer info = Get(fabric, hints, &code);
  return code == -FI_ENODATA && info == nullptr;
}

TEST(EfaInfo, FirstGenerationTellsItsContract) {
  InfoPointer info = Get(kEfaFirst, MakeHints(kEfaFirst));
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->next, nullptr);
  EXPECT_STREQ(info->fabric_attr->prov_name, "efa");
  EXPECT_STREQ(info->fabric_attr->name, "efa");
  EXPECT_EQ(info->addr_format, FI_ADDR_EFA);
  EXPECT_EQ(info->src_addrlen, 32u);
  EXPECT_EQ(info->ep_attr->protocol, FI_PROTO_EFA);
  EXPECT_EQ(info->ep_attr->max_msg_size, UINT64_MAX);
  EXPECT_EQ(info->mode, 0u);
  EXPECT_EQ(info->caps & FI_RMA_EVENT, 0u);
  EXPECT_EQ(info->domain_attr->mr_mode,
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
  EXPECT_EQ(info->domain_attr->mr_key_size, 4u);
  EXPECT_EQ(info->domain_attr->cq_data_size, 8u);
  EXPECT_EQ(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
  EXPECT_EQ(info->domain_attr->resource_mgmt, FI_RM_ENABLED);
  EXPECT_EQ(info->tx_attr->msg_order & (FI_ORDER_SAS | FI_ORDER_SAW), FI_ORDER_SAS);
  EXPECT_EQ(info->tx_attr->inject_size, 3928u);
  EXPECT_EQ(info->tx_attr->iov_limit, 4u);
  EXPECT_EQ(info->tx_attr->rma_iov_limit, 1u);
}

TEST(EfaInfo, LocalRegistrationIsToldOnlyIfOffered) {
  InfoPointer hints = MakeHints(kEfaFirst);
  hints->domain_attr->mr_mode &= ~FI_MR_LOCAL;
  EXPECT_EQ(Get(kEfaFirst, hints)->domain_attr->mr_mode,
            FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
}

TEST(EfaInfo, EachBasicRegistrationModeIsDemanded) {
  for (int mode : {FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY}) {
    InfoPointer hints = MakeHints(kEfaFirst);
    hints->domain_attr->mr_mode &= ~mode;
    EXPECT_TRUE(Refuses(kEfaFirst, hints)) << mode;
  }
}

TEST(EfaInfo, WhatIsNotServedIsRefused) {
  for (const Emulated& fabric : {kEfaFirst, kEfaSecond, kEfaDirect}) {
    EXPECT_TRUE(Refuses(fabric, MakeHints(fabric, FI_MSG | FI_RMA | FI_RMA_EVENT))) << fabric;
    EXPECT_TRUE(Refuses(fabric, MakeHints(fabric, FI_MSG | FI_RMA | FI_FENCE))) << fabric;
    InfoPointer order = MakeHints(fabric);
    order->tx_attr->msg_order = FI_ORDER_SAW;
    EXPECT_TRUE(Refuses(fabric, order)) << fabric;
    InfoPointer inject = MakeHints(fabric);
    inject->tx_attr->inject_size = 1 << 20;
    EXPECT_TRUE(Refuses(fabric, inject)) << fabric;
    InfoPointer address = MakeHints(fabric);
    address->addr_format = FI_SOCKADDR_IN;
    EXPECT_TRUE(Refuses(fabric, address)) << fabric;
    InfoPointer type = MakeHints(fabric);
    type->ep_attr->type = FI_EP_MSG;
    EXPECT_TRUE(Refuses(fabric, type)) << fabric;
    InfoPointer domain = MakeHints(fabric);
    domain->domain_attr->name = strdup("another-rdm");
    EXPECT_TRUE(Refuses(fabric, domain)) << fabric;
  }
}

TEST(EfaInfo, SecondGenerationHasFourBytesOfDataAndTheOrderThatIsAskedFor) {
  InfoPointer hints = MakeHints(kEfaSecond);
  hints->rx_attr->msg_order = 0;
  InfoPointer info = Get(kEfaSecond, hints);
  EXPECT_EQ(info->domain_attr->cq_data_size, 4u);
  EXPECT_EQ(info->tx_attr->inject_size, 4096u);
  EXPECT_EQ(info->tx_attr->msg_order, FI_ORDER_SAS);
  EXPECT_EQ(info->rx_attr->msg_order, 0u);
  hints->domain_attr->cq_data_size = 8;
  EXPECT_TRUE(Refuses(kEfaSecond, hints));
}

TEST(EfaInfo, DirectFabricComesFirstAndMakesDemands) {
  InfoPointer hints = MakeHints(kEfaSecond);
  free(hints->fabric_attr->name);
  hints->fabric_attr->name = nullptr;
  hints->tx_attr->msg_order = 0;
  hints->rx_attr->msg_order = 0;
  InfoPointer both = Get(kEfaSecond, hints);
  EXPECT_STREQ(both->fabric_attr->name, "efa-direct");
  EXPECT_EQ(both->mode, FI_CONTEXT2);
  EXPECT_EQ(both->tx_attr->msg_order, 0u);
  ASSERT_NE(both->next, nullptr);
  EXPECT_STREQ(both->next->fabric_attr->name, "efa");

  InfoPointer no_context = MakeHints(kEfaDirect);
  no_context->mode = FI_CONTEXT;
  EXPECT_TRUE(Refuses(kEfaDirect, no_context));
  InfoPointer no_local = MakeHints(kEfaDirect);
  no_local->domain_attr->mr_mode &= ~FI_MR_LOCAL;
  EXPECT_TRUE(Refuses(kEfaDirect, no_local));
  EXPECT_TRUE(Refuses(kEfaDirect, MakeHints(kEfaDirect, FI_MSG | FI_RMA | FI_ATOMIC)));
  InfoPointer order = MakeHints(kEfaDirect);
  order->tx_attr->msg_order = FI_ORDER_SAS;
  EXPECT_TRUE(Refuses(kEfaDirect, order));
}

TEST(EfaInfo, NodeIsTheDevicesGid) {
  Select(kEfaFirst);
  InfoPointer hints = MakeHints(kEfaFirst);
  fi_info* info = nullptr;
  EXPECT_EQ(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints.get(), &info),
            -FI_ENODATA);
  EXPECT_EQ(fi_getinfo(FI_VERSION(1, 17), "fe80::1", nullptr, FI_SOURCE, hints.get(), &info),
            -FI_ENODATA);
}

TEST(GniInfo, TellsItsContract) {
  InfoPointer info = Get(kGni, MakeHints(kGni));
  ASSERT_NE(info, nullptr);
  EXPECT_STREQ(info->fabric_attr->prov_name, "gni");
  EXPECT_STREQ(info->domain_attr->name, "/sys/class/gni/kgni0");
  EXPECT_EQ(info->addr_format, FI_ADDR_GNI);
  EXPECT_EQ(info->src_addrlen, 48u);
  EXPECT_EQ(info->domain_attr->mr_key_size, 8u);
  EXPECT_EQ(info->domain_attr->cq_data_size, 8u);
  EXPECT_EQ(info->ep_attr->max_msg_size, 0xffffffffu);
  EXPECT_EQ(info->tx_attr->inject_size, 64u);
  EXPECT_EQ(info->tx_attr->size, 500u);
  EXPECT_EQ(info->tx_attr->rma_iov_limit, 1u);
  EXPECT_EQ(info->domain_attr->mr_mode,
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
}

TEST(GniInfo, SecondaryCapabilitiesWithACostComeOnRequestOnly) {
  EXPECT_EQ(Get(kGni, MakeHints(kGni))->caps & (FI_RMA_EVENT | FI_SOURCE), 0u);
  const uint64_t asked = FI_MSG | FI_RMA | FI_RMA_EVENT | FI_SOURCE;
  EXPECT_EQ(Get(kGni, MakeHints(kGni, asked))->caps & asked, asked);
}

TEST(GniInfo, AskedForOrderIsNotLookedAt) {
  InfoPointer hints = MakeHints(kGni);
  hints->tx_attr->msg_order = FI_ORDER_SAW | FI_ORDER_SAS;
  EXPECT_EQ(Get(kGni, hints)->tx_attr->msg_order, FI_ORDER_SAS);
}

TEST(GniInfo, MmuNotifyIsDemandedUnlessAllocatedMemoryIsOffered) {
  InfoPointer hints = MakeHints(kGni);
  hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
  EXPECT_TRUE(Refuses(kGni, hints));
  hints->domain_attr->mr_mode = FI_MR_MMU_NOTIFY;
  EXPECT_EQ(Get(kGni, hints)->domain_attr->mr_mode, FI_MR_MMU_NOTIFY);
}

TEST(GniInfo, ProgressIsWhatIsAskedFor) {
  InfoPointer hints = MakeHints(kGni);
  hints->domain_attr->data_progress = FI_PROGRESS_UNSPEC;
  EXPECT_EQ(Get(kGni, hints)->domain_attr->data_progress, FI_PROGRESS_AUTO);
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  EXPECT_EQ(Get(kGni, hints)->domain_attr->data_progress, FI_PROGRESS_MANUAL);
}

TEST(Info, EveryInfoCanBeDuplicated) {
  for (const Emulated& fabric : {kEfaFirst, kEfaSecond, kEfaDirect, kGni}) {
    InfoPointer info = Get(fabric, MakeHints(fabric));
    ASSERT_NE(info, nullptr);
    InfoPointer copy(fi_dupinfo(info.get()));
    ASSERT_NE(copy, nullptr);
    EXPECT_STREQ(copy->domain_attr->name, info->domain_attr->name);
    EXPECT_EQ(memcmp(copy->src_addr, info->src_addr, info->src_addrlen), 0);
  }
}

TEST(Info, PeersAddressIsHandedThrough) {
  for (const Emulated& fabric : {kEfaFirst, kGni}) {
    InfoPointer hints = MakeHints(fabric);
    const size_t bytes = fabric.provider == std::string("efa") ? 32 : 48;
    hints->dest_addr = calloc(1, bytes);
    hints->dest_addrlen = bytes;
    static_cast<char*>(hints->dest_addr)[5] = 42;
    InfoPointer info = Get(fabric, hints);
    ASSERT_EQ(info->dest_addrlen, bytes);
    EXPECT_EQ(static_cast<char*>(info->dest_addr)[5], 42);
    hints->dest_addrlen = bytes - 1;
    EXPECT_TRUE(Refuses(fabric, hints));
  }
}

TEST(Info, KnobThatMeansNothingHidesTheFabric) {
  setenv("CONTRACT_FREEDOMS", "lat", 1);
  EXPECT_TRUE(Refuses(kGni, MakeHints(kGni)));
  unsetenv("CONTRACT_FREEDOMS");
}

}  // namespace
}  // namespace contract
