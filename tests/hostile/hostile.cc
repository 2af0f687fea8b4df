// Attacks a real invoker_server over a fabric, while an honest client in a process of its own calls
// it and checks every byte of every response. Prints what came of it: a table of attack, tries,
// executed, crashed, others disturbed, and what counted the tries. Exit status 1 if anything is not
// as it must be: nothing executes, crashes or is disturbed, but for what is said to succeed in
// sessions with weaker tags, and that must succeed there; and every attack was seen by what must
// see it, or it has not been one.

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "nlohmann/json.hpp"
#include "src/transport/base/libfabric.h"
#include "src/transport/provider/provider_profile.h"
#include "tests/hostile/attacks.h"
#include "tests/hostile/server_state.h"
#include "tests/transport/immediates.h"

namespace invoker::hostile {
namespace {

using bench::ServerProcess;

struct Settings {
  std::vector<std::string> providers = {"tcp;ofi_rxm", "shm"};
  std::vector<std::string> data_auths = {"off", "header", "full"};
  std::vector<std::string> attacks;  // empty: all
  std::vector<std::string> without;
  uint64_t tries = 1000;
  uint64_t seed = 1;
  std::string json;
};

bool IsMeant(const Settings& settings, const std::string& attack) {
  return (settings.attacks.empty() || absl::c_linear_search(settings.attacks, attack)) &&
         !absl::c_linear_search(settings.without, attack);
}

// The path of a built program or library, by its place in the tree.
std::string Built(absl::string_view path) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path().parent_path().parent_path() / std::string(path);
}

// By how much counters have grown, those that have, with `prefix` before their names.
void AddGrowth(const Drops& before, const Drops& after, const std::string& prefix, Drops* grown) {
  for (const auto& [reason, count] : after) {
    const auto had = before.find(reason);
    const uint64_t more = count - (had == before.end() ? 0 : had->second);
    if (more > 0) (*grown)[prefix + reason] = more;
  }
}

std::string Describe(const Drops& grown) {
  if (grown.empty()) return "nothing";
  return absl::StrJoin(grown, ", ", absl::PairFormatter(" "));
}

// OK if each of `wanted` (Attack::seen) has grown.
absl::Status CheckSeen(const std::vector<std::string>& wanted, const Drops& grown) {
  for (const std::string& any : wanted) {
    const std::vector<std::string> names = absl::StrSplit(any, '|');
    if (std::none_of(names.begin(), names.end(),
                     [&grown](const std::string& name) { return grown.count(name) > 0; })) {
      return absl::InternalError(absl::StrCat("not seen by ", any));
    }
  }
  return absl::OkStatus();
}

// The honest client.
class Victim {
 public:
  static absl::StatusOr<std::unique_ptr<Victim>> Start(const std::string& server,
                                                       const std::string& provider) {
    ServerProcess::Options options;
    options.command = {Built("tests/hostile/victim"), server, provider};
    auto process = ServerProcess::Start(options);
    if (!process.ok()) return process.status();
    return std::unique_ptr<Victim>(new Victim(*std::move(process)));
  }

  VictimFacts facts() const {
    return VictimFacts::From(nlohmann::json::parse(process_->first_line()));
  }

  // "" only reads on.
  absl::StatusOr<nlohmann::json> Ask(const std::string& line) {
    if (!line.empty()) {
      if (absl::Status status = process_->WriteLine(line); !status.ok()) return status;
    }
    absl::StatusOr<std::string> answer = process_->ReadLine();
    if (!answer.ok()) return answer.status();
    return nlohmann::json::parse(*answer);
  }

 private:
  explicit Victim(std::unique_ptr<ServerProcess> process) : process_(std::move(process)) {}

  std::unique_ptr<ServerProcess> process_;
};

struct Outcome {
  uint64_t executed = 0;   // that nobody had asked for who may
  uint64_t crashed = 0;    // the server and the victim
  uint64_t disturbed = 0;  // calls of the victim that failed
  uint64_t wrong = 0;      // answers of the victim's that were not its own
  uint64_t calls = 0;      // the victim's meanwhile
  uint64_t tries = 0;
  Drops grown;         // what has seen the attack
  absl::Status unmet;  // why it has not been one
};

// OK unless what was sent has come to nothing that anybody counts, but for a few. A fabric that
// confirms nothing says so once.
absl::Status CheckMostSeen(const std::vector<std::string>& wanted, const Outcome& outcome) {
  if (std::find(wanted.begin(), wanted.end(), "unconfirmed") != wanted.end()) {
    return absl::OkStatus();
  }
  uint64_t seen = 0;
  for (const auto& [reason, count] : outcome.grown) seen += count;
  if (seen >= outcome.tries / 2) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("of ", outcome.tries, " tries ", seen, " were seen"));
}

class Siege {
 public:
  Siege(const Settings& settings, std::string provider, DataAuth auth)
      : settings_(settings), provider_(std::move(provider)), auth_(auth) {}

  absl::Status Start() {
    ServerProcess::Options options;
    options.command = {Built("tools/invoker_server"), "--listen=127.0.0.1:0",
                       "--provider=" + provider_, "--hot-timeout=50us", "--lease-cores=1",
                       "--lease-memory=512M",
                       // On some fabrics an executor of another user's could not be reached.
                       absl::StrCat("--executor-user=", getpwuid(geteuid())->pw_name),
                       "--functions=" + Built("tests/hostile/functions.so"),
                       absl::StrCat("--data-auth=", DataAuthName(auth_))};
    auto server = ServerProcess::Start(options);
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    address_ = nlohmann::json::parse(server_->first_line())["listen"];
    return absl::OkStatus();
  }

  // What must not have happened did, or the other way round: false.
  bool Try(const Attack& attack, bench::Table* table) {
    const uint64_t tries =
        settings_.tries == 0 ? 0 : std::clamp(settings_.tries, attack.least, attack.most);
    const bool may_succeed = auth_ < attack.succeeds_below;
    if (may_succeed && attack.needs_immediates &&
        transport::StrongestOn(provider_) != Notification::kWriteImm) {
      bench::Row row;
      row.Label("fabric", provider_)
          .Label("data_auth", DataAuthName(auth_))
          .Label("attack", attack.name)
          .Label("knows", attack.knows)
          .Label("verdict", "not tried: the payload is inside the send");
      table->rows.push_back(std::move(row));
      return true;
    }
    absl::StatusOr<Outcome> outcome = Run(attack, tries);
    if (!outcome.ok()) {
      std::fprintf(stderr, "hostile: %s, %s, %s: %s\n", provider_.c_str(), attack.name,
                   std::string(DataAuthName(auth_)).c_str(), outcome.status().ToString().c_str());
      return false;
    }
    const bool succeeded = outcome->executed + outcome->wrong > 0;
    // With a race, whether it succeeds is chance, and so is which side sees it.
    const bool in_order =
        (transport::FindRow(provider_).message_order & (FI_ORDER_WAW | FI_ORDER_SAW)) != 0;
    const bool chance = attack.race_without_tags &&
                        (auth_ == DataAuth::kOff || (auth_ == DataAuth::kHeader && !in_order));
    // A call that is lost stops the victim's bare session 4096 calls later, where a client would
    // have connected again.
    const bool disturbs_too_much = !attack.destroys && outcome->disturbed > 0;
    const bool as_it_must =
        outcome->crashed == 0 &&
        (chance        ? outcome->executed == 0
         : may_succeed ? succeeded || tries == 0
                       : !succeeded && !disturbs_too_much && outcome->calls > 0);
    // What can only succeed by attacking has attacked, and may have cost the victim's session.
    if (outcome->unmet.ok() && !chance && !(may_succeed && succeeded)) {
      outcome->unmet = CheckSeen(WhatMustSee(attack), outcome->grown);
      if (!attack.destroys) outcome->unmet.Update(CheckMostSeen(WhatMustSee(attack), *outcome));
    }
    bench::Row row;
    row.Label("fabric", provider_)
        .Label("data_auth", DataAuthName(auth_))
        .Label("attack", attack.name)
        .Label("knows", attack.knows)
        .Label("verdict", !as_it_must ? "WRONG"
                          : !outcome->unmet.ok()
                              ? absl::StrCat("NO ATTACK: ", outcome->unmet.message())
                          : may_succeed            ? "succeeds, as documented"
                          : chance                 ? "a race, as documented"
                          : outcome->disturbed > 0 ? "fails, and destroys, as documented"
                                                   : "fails")
        .Label("counted", Describe(outcome->grown))
        .Value("tries", static_cast<double>(outcome->tries))
        .Value("executed", static_cast<double>(outcome->executed))
        .Value("crashed", static_cast<double>(outcome->crashed))
        .Value("disturbed", static_cast<double>(outcome->disturbed))
        .Value("wrong_bytes", static_cast<double>(outcome->wrong))
        .Value("victim_calls", static_cast<double>(outcome->calls));
    table->rows.push_back(std::move(row));
    return as_it_must && outcome->unmet.ok();
  }

 private:
  const std::vector<std::string>& WhatMustSee(const Attack& attack) const {
    if (!attack.seen_unconnected.empty() && transport::FindRow(provider_).same_host_only) {
      return attack.seen_unconnected;
    }
    return auth_ == DataAuth::kOff ? attack.seen : attack.seen_with_tags;
  }

  absl::StatusOr<Outcome> Run(const Attack& attack, uint64_t tries) {
    auto victim = Victim::Start(address_, provider_);
    if (!victim.ok()) return victim.status();
    Battle battle(
        provider_, address_, (*victim)->facts(),
        [raw = victim->get()](const std::string& line) { return raw->Ask(line); }, settings_.seed);
    if (absl::Status status = battle.Renew(); !status.ok()) return status;
    absl::StatusOr<nlohmann::json> start = (*victim)->Ask("stat");
    if (!start.ok()) return start.status();
    const absl::StatusOr<Counts> before = ReadCounts(battle.own.get());
    const absl::StatusOr<Drops> drops_before = ReadDrops(battle.own.get());
    if (!before.ok()) return before.status();
    if (!drops_before.ok()) return drops_before.status();

    attack.run(&battle, tries);

    Outcome outcome;
    outcome.tries = std::max(tries, battle.tried);
    outcome.tries -= std::min(outcome.tries, battle.fates.not_sent);
    outcome.unmet = battle.unmet();
    if (attack.seen.empty() && battle.met() == 0) {
      outcome.unmet.Update(absl::InternalError("no try was answered as it must be"));
    }
    if (battle.fates.refused > 0) outcome.grown["fabric"] = battle.fates.refused;
    if (battle.unconfirmed > 0) outcome.grown["unconfirmed"] = battle.unconfirmed;
    if (attack.seen.empty()) outcome.grown["answers"] = battle.met();
    // The old session stays until what was sent to it has been looked at.
    std::unique_ptr<RawSession> old = std::move(battle.own);
    absl::Status alive = battle.Renew();
    absl::StatusOr<Drops> drops = drops_before;
    if (alive.ok()) {
      drops = AwaitRest(battle.own.get());
      alive = drops.status();
    }
    old.reset();
    if (!alive.ok()) {
      std::fprintf(stderr, "hostile: the server does not answer: %s\n", alive.ToString().c_str());
      ++outcome.crashed;
      return outcome;
    }
    AddGrowth(*drops_before, *drops, "", &outcome.grown);
    // Where its session was taken over, after the deadline of the call that is lost to that.
    Question(victim->get(), *start, &outcome);
    const absl::StatusOr<Counts> after = ReadCounts(battle.own.get());
    if (!after.ok()) return after.status();
    outcome.executed = after->forged - before->forged;
    const uint64_t own = after->own - before->own;
    if (own > battle.own_calls) outcome.executed += own - battle.own_calls;
    if (own > 0) outcome.grown["own calls"] = own;
    // The victim has made some calls before this began to count.
    const uint64_t honest = after->honest - before->honest;
    if (honest > outcome.calls) outcome.executed += honest - outcome.calls;
    return outcome;
  }

  // Ends the victim's calling and hears how it has fared.
  static void Question(Victim* victim, const nlohmann::json& start, Outcome* outcome) {
    const absl::StatusOr<nlohmann::json> end = victim->Ask("quiet");
    if (!end.ok()) {
      std::fprintf(stderr, "hostile: the victim does not answer: %s\n",
                   end.status().ToString().c_str());
      ++outcome->crashed;
      return;
    }
    outcome->calls = (*end)["calls"].get<uint64_t>() - start["calls"].get<uint64_t>();
    outcome->disturbed = (*end)["failed"];
    outcome->wrong = (*end)["wrong"];
    AddGrowth(start["dropped"].get<Drops>(), (*end)["dropped"].get<Drops>(),
              "client: ", &outcome->grown);
  }

  const Settings& settings_;
  const std::string provider_;
  const DataAuth auth_;
  std::unique_ptr<ServerProcess> server_;
  std::string address_;
};

int Run(const Settings& settings) {
  bench::Report report("hostile", "What can a peer do that does not keep to the protocol?");
  bench::Table& table = report.AddTable("attacks", "Attacks on a session of somebody else's");
  bool all_right = true;
  for (const std::string& provider : settings.providers) {
    for (const std::string& name : settings.data_auths) {
      Siege siege(settings, provider, *ParseDataAuth(name));
      if (absl::Status status = siege.Start(); !status.ok()) {
        std::fprintf(stderr, "hostile: %s\n", status.ToString().c_str());
        return 1;
      }
      for (const Attack& attack : AllAttacks()) {
        if (!IsMeant(settings, attack.name)) continue;
        all_right &= siege.Try(attack, &table);
      }
    }
  }
  report.Condition("seed", absl::StrCat(settings.seed));
  report.Note(
      "executed: functions run that no client had asked for. disturbed: calls of the victim that "
      "failed. counted: by the server's `invoker drops`, by the victim (client), refused or never "
      "confirmed by the fabric, or answers as they must be. NO ATTACK: what must have seen it has "
      "not, or it was "
      "answered otherwise than it "
      "must be.");
  report.Note(
      "Without tags, who has the key of a window, its epoch and a sequence that is still to come "
      "can forge, and with the key alone change payloads, which only full prevents: documented, "
      "and "
      "the reason for --data-auth. A forged request also costs the calls whose sequences it has "
      "overtaken: disturbed.");
  report.Note(
      "Doorbells too early must meet a message that has not arrived whole (bad_tag, with tags) "
      "where the bytes of a message arrive one after the other. On shm the thread that looks "
      "copies "
      "each message whole, so that this is chance there, and not demanded.");
  report.Note(
      "Not prevented by any of them: who has the key of a window can destroy messages in it, so "
      "that calls fail; the attacks with a key keep away from the victim's cells, but for changed "
      "payloads. On shm a process of the same user can read and write the other's memory without "
      "asking any fabric.");
  report.Print();
  if (!settings.json.empty()) {
    if (absl::Status status = report.WriteJson(settings.json); !status.ok()) {
      std::fprintf(stderr, "hostile: %s\n", status.ToString().c_str());
      return 1;
    }
  }
  return all_right ? 0 : 1;
}

}  // namespace
}  // namespace invoker::hostile

int main(int argc, char** argv) {
  invoker::hostile::Settings settings;
  CLI::App app("Attacks an invoker_server, and says what came of it.", "hostile");
  app.add_option("--provider", settings.providers, "over these fabrics")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--data-auth", settings.data_auths, "with these tags")
      ->delimiter(',')
      ->check(CLI::IsMember({"off", "header", "full"}))
      ->capture_default_str();
  std::vector<std::string> names;
  for (const invoker::hostile::Attack& attack : invoker::hostile::AllAttacks()) {
    names.push_back(attack.name);
  }
  app.add_option("--attack", settings.attacks, "only these")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--without", settings.without, "not these")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--tries", settings.tries, "of each attack, but for those that take long")
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "of what is random")->capture_default_str();
  app.add_option("--json", settings.json, "a file for the table");
  CLI11_PARSE(app, argc, argv);
  return invoker::hostile::Run(settings);
}
