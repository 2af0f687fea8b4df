// Attacks on what the bootstrap does for a session: questions, windows, sessions that are refused.

#include "absl/time/time.h"
#include "tests/hostile/attacks.h"

namespace invoker::hostile {
namespace {

constexpr absl::Duration kStep = absl::Seconds(60);

// Each one is looked for by the executor, between calls of the victim's.
void QuestionsAboutRequestsThatNeverWere(Battle* battle, uint64_t tries) {
  for (uint64_t i = 0; i < tries; ++i) {
    battle->own->bootstrap()
        .FindRequest(battle->own->lease(), battle->own->reply().handle,
                     battle->own->request().first_sequence + 1'000'000 + i, kStep)
        .status()
        .IgnoreError();
  }
}

// More than a session may have. They go with the session.
void WindowsThatNobodyForgets(Battle* battle, uint64_t tries) {
  for (uint64_t i = 0; i < tries; ++i) {
    battle->own->bootstrap()
        .RegisterWindow(battle->own->lease(), battle->own->reply().handle, {1 << 20, 4096, i}, true,
                        true, kStep)
        .status()
        .IgnoreError();
  }
}

// One that is opened between any two that are refused, each with a window of its own.
void SessionsThatAreRefused(Battle* battle, uint64_t tries) {
  auto lease = bootstrap::Lease::Acquire(&battle->own->bootstrap(), {}, {}, kStep);
  if (!lease.ok()) return;
  bootstrap::OpenSessionRequest request = battle->own->request();
  request.session_token.clear();
  for (uint64_t i = 0; i < tries; ++i) {
    bootstrap::OpenSessionRequest wrong = request;
    // No window has cells of such a size, or an endpoint such an address.
    if (i % 2 == 0) {
      wrong.window_bytes = wrong.response_window.length = request.window_bytes - 1;
    } else {
      wrong.endpoint_address = "x";
    }
    battle->own->bootstrap().OpenSession((*lease)->id(), wrong, kStep).status().IgnoreError();
    const auto opened = battle->own->bootstrap().OpenSession((*lease)->id(), request, kStep);
    if (!opened.ok()) continue;
    battle->own->bootstrap().CloseSession((*lease)->id(), opened->handle, kStep).IgnoreError();
  }
}

}  // namespace

std::vector<Attack> AttacksOnTheBootstrap() {
  return {
      {"questions about requests that never were", "own session",
       QuestionsAboutRequestsThatNeverWere, false, 2000},
      {"windows that nobody forgets", "own session", WindowsThatNobodyForgets, false, 10'000},
      {"sessions that are refused", "own session", SessionsThatAreRefused, false, 200},
  };
}

}  // namespace invoker::hostile
