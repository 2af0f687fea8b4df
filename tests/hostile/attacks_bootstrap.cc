// Attacks on what the bootstrap does for a session: questions, windows, sessions that are refused.

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "src/invoke/wire/sequence_window.h"
#include "tests/hostile/attacks.h"

namespace invoker::hostile {
namespace {

constexpr absl::Duration kStep = absl::Seconds(60);

// A lease, and an endpoint for one session of it: no two sessions have the same.
struct Ground {
  std::unique_ptr<bootstrap::Lease> lease;
  std::unique_ptr<transport::Reactor> reactor;
  bootstrap::OpenSessionRequest request;

  static absl::StatusOr<Ground> Take(Battle* battle) {
    Ground ground;
    auto lease = bootstrap::Lease::Acquire(&battle->own->bootstrap(), {}, {}, kStep);
    if (!lease.ok()) return lease.status();
    auto reactor = OpenReactor(battle->provider);
    if (!reactor.ok()) return reactor.status();
    ground.lease = *std::move(lease);
    ground.reactor = *std::move(reactor);
    ground.request = battle->own->request();
    ground.request.endpoint_address = ground.reactor->address();
    ground.request.session_token.clear();
    return ground;
  }

  absl::StatusOr<uint64_t> Open(Battle* battle) const {
    auto opened = battle->own->bootstrap().OpenSession(lease->id(), request, kStep);
    if (!opened.ok()) return opened.status();
    return opened->handle;
  }
};

// About requests of one session.
void Ask(Battle* battle, uint64_t lease, uint64_t handle, uint64_t questions) {
  for (uint64_t sequence = 1; sequence <= questions; ++sequence) {
    const auto state = battle->own->bootstrap().FindRequest(
        lease, handle, battle->own->request().first_sequence + sequence, kStep);
    if (!state.ok()) return battle->Unmet(state.status());
    // While a function runs it may be all that can be said.
    if (*state != bootstrap::RequestState::kNotArrived &&
        *state != bootstrap::RequestState::kInHand) {
      return battle->Unmet(absl::InternalError("a request that never was has been there"));
    }
    battle->Met();
  }
}

// About more sessions at the same time than the executor looks for at once, between calls of the
// victim's.
void QuestionsAboutRequestsThatNeverWere(Battle* battle, uint64_t tries) {
  constexpr uint64_t kSessions = 12;
  std::vector<Ground> grounds;
  std::vector<uint64_t> handles;
  for (uint64_t i = 0; i < kSessions; ++i) {
    absl::StatusOr<Ground> ground = Ground::Take(battle);
    if (!ground.ok()) return battle->Unmet(ground.status());
    const absl::StatusOr<uint64_t> handle = ground->Open(battle);
    if (!handle.ok()) return battle->Unmet(handle.status());
    grounds.push_back(*std::move(ground));
    handles.push_back(*handle);
  }
  std::vector<std::thread> askers;
  for (uint64_t i = 0; i < kSessions; ++i) {
    askers.emplace_back(Ask, battle, grounds[i].lease->id(), handles[i],
                        (tries + kSessions - 1) / kSessions);
  }
  for (std::thread& asker : askers) asker.join();
}

// The most that a session may have. They go with the session.
constexpr uint64_t kMostWindows = 2 * SequenceWindow::kWidth;

void WindowsThatNobodyForgets(Battle* battle, uint64_t tries) {
  for (uint64_t i = 0; i < tries; ++i) {
    const auto registered = battle->own->bootstrap().RegisterWindow(
        battle->own->lease(), battle->own->reply().handle, {1 << 20, 4096, i}, true, true, kStep);
    battle->Demand(i < kMostWindows ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted,
                   registered.status());
  }
  if (tries <= kMostWindows) battle->Unmet(absl::InternalError("no window was one too many"));
}

// One that is opened between any two that are refused, each with a window of its own.
void SessionsThatAreRefused(Battle* battle, uint64_t tries) {
  const absl::StatusOr<Ground> ground = Ground::Take(battle);
  if (!ground.ok()) return battle->Unmet(ground.status());
  const bootstrap::OpenSessionRequest& request = ground->request;
  for (uint64_t i = 0; i < tries; ++i) {
    bootstrap::OpenSessionRequest wrong = request;
    // No window has cells of such a size, or an endpoint such an address.
    if (i % 2 == 0) {
      wrong.window_bytes = wrong.response_window.length = request.window_bytes - 1;
    } else {
      wrong.endpoint_address = "x";
    }
    if (battle->own->bootstrap().OpenSession(ground->lease->id(), wrong, kStep).ok()) {
      return battle->Unmet(absl::InternalError("a session that cannot be was opened"));
    }
    const absl::StatusOr<uint64_t> handle = ground->Open(battle);
    if (!handle.ok()) return battle->Unmet(handle.status());
    const absl::Status closed =
        battle->own->bootstrap().CloseSession(ground->lease->id(), *handle, kStep);
    if (!closed.ok()) return battle->Unmet(closed);
    battle->Met();
  }
}

}  // namespace

std::vector<Attack> AttacksOnTheBootstrap() {
  return {
      {.name = "questions about requests that never were",
       .knows = "own session",
       .run = QuestionsAboutRequestsThatNeverWere,
       .most = 2000},
      {.name = "windows that nobody forgets",
       .knows = "own session",
       .run = WindowsThatNobodyForgets,
       .least = kMostWindows + 100,
       .most = 10'000},
      {.name = "sessions that are refused",
       .knows = "own session",
       .run = SessionsThatAreRefused,
       .most = 200},
  };
}

}  // namespace invoker::hostile
