// What a hostile peer tries. Each attack makes so many tries, and says what it hoped for.
//
// One thread.

#ifndef INVOKER_TESTS_HOSTILE_ATTACKS_H_
#define INVOKER_TESTS_HOSTILE_ATTACKS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "src/invoke/wire/wire.h"
#include "tests/hostile/attacker.h"
#include "tests/hostile/raw_session.h"

namespace invoker::hostile {

// For an answer, on a loaded machine.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// What is known of a session of somebody else's.
struct VictimFacts {
  std::string endpoint;  // the client's, raw
  bootstrap::WindowDescriptor response_window;
  uint16_t response_session = 0;
  bootstrap::WindowDescriptor request_window;
  uint16_t request_session = 0;
  uint32_t epoch = 0;

  static VictimFacts From(const nlohmann::json& facts);
};

// What an attack has to work with.
class Battle {
 public:
  // `ask` sends the victim a line and returns the JSON that it answers; with "" it reads on.
  Battle(std::string provider, std::string server, VictimFacts victim,
         std::function<absl::StatusOr<nlohmann::json>(const std::string&)> ask, uint64_t seed)
      : provider(std::move(provider)),
        server(std::move(server)),
        victim(std::move(victim)),
        ask(std::move(ask)),
        random(seed) {}

  // Opens the attacker's own session.
  absl::Status Renew();

  // An endpoint of the attacker's against the server's, or against the victim's. It is connected:
  // Unmet if not.
  std::unique_ptr<Attacker> AgainstServer();
  std::unique_ptr<Attacker> AgainstVictim();
  // A new one against the server's, where the last try may have cost the connection.
  void Replace(std::unique_ptr<Attacker>* attacker);

  // Writes where the attacker must not, the `i`th of `tries`, so that what the fabric makes of it
  // is seen. A fabric that connects says that it refuses. On others the server's end drops the
  // write without a word, and goes on with what comes behind it: the last one is never confirmed.
  void WriteWrongly(Attacker* attacker, const bootstrap::WindowDescriptor& window, uint64_t offset,
                    absl::Span<const std::byte> bytes, uint32_t token, uint64_t i, uint64_t tries);

  uint64_t Random() { return random(); }

  // The attack did not come to what it was to try, or got what it must not: the first such is kept.
  // Any thread.
  void Unmet(const absl::Status& why) {
    absl::MutexLock lock(&mutex_);
    unmet_.Update(why);
  }
  absl::Status unmet() const {
    absl::MutexLock lock(&mutex_);
    return unmet_;
  }
  // A try was answered as it must be. Any thread.
  void Met() { ++met_; }
  uint64_t met() const { return met_; }
  // The same of a status: Unmet unless it has this code.
  void Demand(absl::StatusCode code, const absl::Status& status);

  const std::string provider;
  const std::string server;
  const VictimFacts victim;
  const std::function<absl::StatusOr<nlohmann::json>(const std::string&)> ask;
  std::unique_ptr<RawSession> own;
  // What an attack has taken and does not give back before it has been judged.
  std::vector<std::unique_ptr<RawSession>> held;
  WindowGeometry geometry = *WindowGeometry::Make(kMinWindowBytes);  // the same for all windows
  std::mt19937_64 random;
  // What the attacker has called in its own session, and may: once each.
  uint64_t own_calls = 0;
  // How many tries it has made, where it makes more than it is told to.
  uint64_t tried = 0;
  Fates fates;
  uint64_t unconfirmed = 0;  // by a fabric that does not refuse

 private:
  void Reach(Attacker* attacker, const bootstrap::WindowDescriptor& window);

  std::atomic<uint64_t> met_{0};
  mutable absl::Mutex mutex_;
  absl::Status unmet_ ABSL_GUARDED_BY(mutex_);
};

struct Attack {
  const char* name = nullptr;
  // Who can do it: knows nothing but addresses, has a session of its own, or has a key that is not
  // its own.
  const char* knows = nullptr;
  std::function<void(Battle*, uint64_t tries)> run;
  // What must have seen it, or it has not attacked: counters of the server, of the victim
  // ("client: NAME"), or what the fabric refused ("fabric") or never confirmed ("unconfirmed").
  // Each of them grows; of "one|other", one does. Nothing: the attack itself looks at how it is
  // answered, and says so (Battle::Met).
  std::vector<std::string> seen = {};
  // The same where tags say otherwise, and, if not empty, on fabrics where nothing connects.
  std::vector<std::string> seen_with_tags = seen;
  std::vector<std::string> seen_unconnected = {};
  // With weaker tags than these it succeeds, which shows enough; with these and stronger ones it
  // must not.
  DataAuth succeeds_below = DataAuth::kOff;
  // Where it does not succeed it destroys: each try may cost the victim a call, and then its
  // session.
  bool destroys = false;
  // Tries at least, where fewer do not come to what it is to try; none stay none. Tries at most,
  // where each takes long.
  uint64_t least = 0;
  uint64_t most = UINT64_MAX;
  // Without tags it is a race that either side may win. With kHeader it is one on fabrics only that
  // place the bytes of a write in any order.
  bool race_without_tags = false;
  // Without tags it succeeds only where requests are writes with immediate. A payload inside a send
  // is placed when its message is read, after all that the attacker has written.
  bool needs_immediates = false;
};

std::vector<Attack> AllAttacks();

// The parts of AllAttacks, one file each.
std::vector<Attack> AttacksOfAnybody();
std::vector<Attack> AttacksFromASession();
std::vector<Attack> AttacksOnAStore();
std::vector<Attack> AttacksWithAKey();
std::vector<Attack> AttacksThatRead();
std::vector<Attack> AttacksOnTheBootstrap();

// A request of the attacker's session, right in every field but for what the caller changes.
RequestHeader OwnRequest(Battle* battle, uint64_t sequence);
std::vector<std::byte> Encode(const RequestHeader& header, absl::string_view payload);
uint32_t OwnToken(const Battle& battle, uint32_t cell, MessageKind kind = MessageKind::kRequest);

}  // namespace invoker::hostile

#endif  // INVOKER_TESTS_HOSTILE_ATTACKS_H_
