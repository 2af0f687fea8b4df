#include "src/transport/base/signal_guard.h"

#include <signal.h>

#include <optional>
#include <utility>

#include "gtest/gtest.h"
#include "src/transport/base/libfabric.h"

namespace invoker::transport {
namespace {

using Handler = void (*)(int);

void Programs(int) {}
void Another(int) {}

// In the place of what a provider installs: code of libfabric's. Nothing is raised here.
const auto kLibfabrics = reinterpret_cast<Handler>(reinterpret_cast<void (*)()>(&fi_freeinfo));

void Install(Handler handler) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ASSERT_EQ(sigaction(SIGINT, &action, nullptr), 0);
}

// Installs it the way providers do.
void InstallWithInfo(Handler handler) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGINT, &action, nullptr), 0);
}

Handler Installed() {
  struct sigaction action;
  EXPECT_EQ(sigaction(SIGINT, nullptr, &action), 0);
  return action.sa_handler;
}

// The handler after libfabric has been called with `before` installed and has left `after`.
Handler AfterGuard(Handler before, Handler after) {
  Install(before);
  {
    const SignalGuard guard;
    InstallWithInfo(after);
  }
  return Installed();
}

// The first, since there is no way back.
TEST(SignalGuardTest, ChangesNothingUnlessItIsToKeepHandlers) {
  EXPECT_EQ(AfterGuard(&Programs, kLibfabrics), kLibfabrics);
  KeepSignalHandlers();
  EXPECT_EQ(AfterGuard(&Programs, kLibfabrics), &Programs);
}

TEST(SignalGuardTest, PutsBackWhatLibfabricHasReplaced) {
  KeepSignalHandlers();
  EXPECT_EQ(AfterGuard(&Programs, kLibfabrics), &Programs);
  EXPECT_EQ(AfterGuard(SIG_IGN, kLibfabrics), SIG_IGN);
  EXPECT_EQ(AfterGuard(&Programs, &Programs), &Programs);
}

TEST(SignalGuardTest, LibfabricsStaysWhereTheDefaultActionWas) {
  KeepSignalHandlers();
  EXPECT_EQ(AfterGuard(SIG_DFL, kLibfabrics), kLibfabrics);
}

TEST(SignalGuardTest, WhatTheProgramHasSetMeanwhileStays) {
  KeepSignalHandlers();
  EXPECT_EQ(AfterGuard(&Programs, &Another), &Another);
  EXPECT_EQ(AfterGuard(&Programs, SIG_IGN), SIG_IGN);
  EXPECT_EQ(AfterGuard(&Programs, SIG_DFL), SIG_DFL);
  EXPECT_EQ(AfterGuard(SIG_IGN, &Another), &Another);
}

TEST(SignalGuardTest, OfTwoThatOverlapTheLaterPutsNothingOfLibfabricsBack) {
  KeepSignalHandlers();
  Install(&Programs);
  std::optional<SignalGuard> first(std::in_place);
  InstallWithInfo(kLibfabrics);
  std::optional<SignalGuard> second(std::in_place);
  first.reset();
  EXPECT_EQ(Installed(), &Programs);
  second.reset();
  EXPECT_EQ(Installed(), &Programs);
}

}  // namespace
}  // namespace invoker::transport
