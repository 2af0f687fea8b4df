// ClientSession and ExecutorSession against tests/model/transitions.txt: every line that is not
// illegal is brought about and looked at. The model of the protocol takes its steps from the same
// lines.

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr Way kWay = {"TcpWriteImm", "tcp;ofi_rxm", Notification::kWriteImm};
constexpr int64_t kHourNs = 3'600'000'000'000;

struct Line {
  std::string machine;
  std::string state;
  std::string event;
  std::string next;
  std::set<std::string> effects;

  std::string name() const { return absl::StrCat(machine, " ", state, " ", event); }
};

std::vector<Line> ReadTable() {
  std::ifstream file("tests/model/transitions.txt");
  EXPECT_TRUE(file.good());
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text.substr(0, text.find('#')));
    Line line;
    if (!(words >> line.machine >> line.state >> line.event >> line.next)) continue;
    for (std::string effect; words >> effect;) {
      if (effect != "-") line.effects.insert(effect);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// What happened, in the table's words.
struct Seen {
  std::string next;
  std::set<std::string> effects;
};

void Compare(const Line& line, const Seen& seen) {
  EXPECT_EQ(seen.next, line.next) << line.name();
  EXPECT_EQ(absl::StrJoin(seen.effects, " "), absl::StrJoin(line.effects, " ")) << line.name();
}

// One call of a client whose executor takes no turns. Its responses come from an attacker, who
// knows what to write.
class ClientMachine {
 public:
  ClientMachine() : pair_(kWay, {}), attacker_(pair_.AttackClient()) {
    call_ = Start();
    sequence_ = call_->sequence;
    cell_ = call_->response.first;
  }

  // False: there is no such state.
  bool Reach(const std::string& state) {
    if (state == "outstanding") return true;
    if (state == "free") return Happen("response") && Happen("finish");
    if (state == "timed_out") return Happen("deadline");
    if (state == "abandoned") return Happen("abandon");
    if (state == "kept") return Happen("deadline") && Happen("session_end");
    if (state == "adrift") return Happen("abandon") && Happen("session_end");
    if (state == "done") return Happen("response");
    if (state == "done_late") return Happen("deadline") && Happen("response");
    return false;
  }

  // False: there is no such event.
  bool Happen(const std::string& event) {
    ClientSession& client = pair_.client();
    if (event == "start") {
      Call* started = Start();
      EXPECT_EQ(started, call_) << "another slot than the one that is free";
    } else if (event == "response") {
      Respond(sequence_);
    } else if (event == "wrong_response") {
      Respond(sequence_ + 1);
    } else if (event == "deadline") {
      client.OnTick(transport::MonotonicNs() + 2 * kHourNs);
    } else if (event == "cancel") {
      client.EndEarly(call_, absl::StatusCode::kCancelled, "the call was cancelled");
    } else if (event == "session_end") {
      client.Fail(absl::UnavailableError("the session has ended"));
    } else if (event == "finish") {
      client.Finish(call_, false);
    } else if (event == "abandon") {
      client.Retire(call_);
    } else {
      return false;
    }
    return true;
  }

  Seen Watch(const std::string& event) {
    ClientSession& client = pair_.client();
    const uint32_t requests = client.free_request_cells();
    const uint32_t responses = client.free_response_cells();
    const uint32_t outstanding = client.outstanding();
    const uint64_t dropped = TotalDrops(client.dropped());
    EXPECT_TRUE(Happen(event)) << event;
    Seen seen;
    if (client.free_request_cells() > requests) seen.effects.insert("free_request");
    if (client.free_response_cells() > responses) seen.effects.insert("free_response");
    if (client.outstanding() < outstanding) seen.effects.insert("end");
    if (TotalDrops(client.dropped()) > dropped) seen.effects.insert("drop");
    seen.next = State();
    return seen;
  }

  std::string State() {
    const bool over = !pair_.client().failure().ok();
    switch (call_->state) {
      case Call::State::kFree:
        return "free";
      case Call::State::kOutstanding:
        return "outstanding";
      case Call::State::kTimedOut:
        if (call_->detached) return over ? "adrift" : "abandoned";
        return over ? "kept" : "timed_out";
      case Call::State::kDone:
        return call_->response.cells == 0 ? "done_late" : "done";
    }
    return "";
  }

 private:
  Call* Start() { return pair_.StartEcho("hello", 16, kEcho, transport::MonotonicNs() + kHourNs); }

  // Until the client has looked at it.
  void Respond(uint64_t sequence) {
    ResponseHeader header;
    header.payload_bytes = 5;
    header.sequence = sequence;
    header.epoch = 7;
    std::byte message[kHeaderBytes + 5] = {};
    Pack(header).CopyTo(message);
    const uint64_t dropped = TotalDrops(pair_.client().dropped());
    const Call::State state = call_->state;
    attacker_->Write(pair_.geometry().OffsetOf(cell_), message,
                     Immediate{MessageKind::kResponse, 9, static_cast<uint16_t>(cell_)}.Encode());
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    while (TotalDrops(pair_.client().dropped()) == dropped && call_->state == state &&
           transport::MonotonicNs() < give_up) {
      pair_.client_reactor().Poll();
      attacker_->Poll();
    }
  }

  SessionPair pair_;
  std::unique_ptr<Attacker> attacker_;
  Call* call_;
  uint64_t sequence_;
  uint32_t cell_;
};

// One sequence number at an executor, whose requests come from an attacker.
class ExecutorMachine {
 public:
  ExecutorMachine() : pair_(kWay, {}), attacker_(pair_.AttackExecutor()) {}

  bool Reach(const std::string& state) {
    if (state == "new") return true;
    if (state == "seen") return Happen("request");
    if (state == "too_old") {
      sequence_ += SequenceWindow::kWidth;
      const bool happened = Happen("request");
      sequence_ -= SequenceWindow::kWidth;
      return happened;
    }
    if (state == "too_far") {
      sequence_ += SequenceWindow::kMaxAdvance + 1;
      return true;
    }
    return false;
  }

  bool Happen(const std::string& event) {
    RequestHeader header;
    header.function_id = kEcho;
    header.sequence = sequence_;
    header.epoch = 7;
    header.response_cell = kCell;
    header.response_capacity = 16;
    MessageKind rung = MessageKind::kRequest;
    uint32_t cell = kCell;
    bool zeros = false;
    int64_t turn_began_ns = 0;
    if (event == "probe") {
      header.kind = rung = MessageKind::kProbe;
    } else if (event == "unknown_function") {
      header.function_id = 999;
    } else if (event == "draining") {
      pair_.draining = true;
    } else if (event == "expired") {
      header.deadline_us = 1;
      turn_began_ns = transport::MonotonicNs() - kHourNs;
    } else if (event == "cancelled") {
      header.flags = kCancelled;
    } else if (event == "wrong_epoch") {
      header.epoch = 8;
    } else if (event == "bad_run") {
      header.response_cell = static_cast<uint16_t>(pair_.geometry().cells());
    } else if (event == "wrong_kind") {
      rung = MessageKind::kProbe;
    } else if (event == "not_a_header") {
      zeros = true;
    } else if (event == "outside") {
      cell = pair_.geometry().cells();
    } else if (event != "request") {
      return false;
    }
    std::byte message[kHeaderBytes] = {};
    if (!zeros) Pack(header).CopyTo(message);
    // Written with a token of no session; the doorbell is the test's.
    const uint64_t tokens = pair_.tokens;
    attacker_->Write(pair_.geometry().OffsetOf(kCell), message, 0xffffffff);
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    while (pair_.tokens == tokens && transport::MonotonicNs() < give_up) {
      pair_.executor_reactor().Poll();
      attacker_->Poll();
    }
    pair_.Ring(rung, cell, turn_began_ns);
    pair_.draining = false;
    return true;
  }

  Seen Watch(const std::string& event) {
    Seen seen;
    seen.effects = Effects(event);
    // What a plain request of the same number does now tells which state it is in.
    const std::set<std::string> then = Effects("request");
    if (then.count("run") != 0) {
      seen.next = "new";
    } else if (then.count("drop_replayed") != 0) {
      seen.next = "seen";
    } else if (then.count("drop_stale_sequence") != 0) {
      seen.next = sequence_ > SequenceWindow::kMaxAdvance ? "too_far" : "too_old";
    }
    return seen;
  }

 private:
  static constexpr uint16_t kCell = 10;

  std::set<std::string> Effects(const std::string& event) {
    const uint64_t ran = pair_.functions.calls;
    const uint64_t answers = pair_.executor().responses().messages();
    const DropCounters before = pair_.executor().counters().dropped;
    EXPECT_TRUE(Happen(event)) << event;
    std::set<std::string> effects;
    if (pair_.functions.calls > ran) effects.insert("run");
    if (pair_.executor().responses().messages() > answers) effects.insert(Answer());
    const DropCounters& after = pair_.executor().counters().dropped;
    const std::map<std::string, std::pair<uint64_t, uint64_t>> counters = {
        {"outside_window", {before.outside_window, after.outside_window}},
        {"not_a_header", {before.not_a_header, after.not_a_header}},
        {"kind_mismatch", {before.kind_mismatch, after.kind_mismatch}},
        {"wrong_epoch", {before.wrong_epoch, after.wrong_epoch}},
        {"bad_response_run", {before.bad_response_run, after.bad_response_run}},
        {"replayed", {before.replayed, after.replayed}},
        {"stale_sequence", {before.stale_sequence, after.stale_sequence}},
    };
    for (const auto& [name, counts] : counters) {
      if (counts.second > counts.first) effects.insert(absl::StrCat("drop_", name));
    }
    return effects;
  }

  // What the response does that arrives at the client, which knows of no such call.
  std::string Answer() {
    pair_.executor().Flush();
    const uint64_t dropped = TotalDrops(pair_.client().dropped());
    EXPECT_TRUE(pair_.Until([&] { return TotalDrops(pair_.client().dropped()) > dropped; }));
    ResponseHeader header;
    const std::byte* message = pair_.client().ResponsePayload({kCell, 1}) - kHeaderBytes;
    EXPECT_EQ(DecodeResponse(HeaderSnapshot::Take(message), &header), WireError::kNone);
    EXPECT_EQ(header.sequence, sequence_);
    return absl::StrCat("answer_", StatusCodeName(header.status));
  }

  SessionPair pair_;
  std::unique_ptr<Attacker> attacker_;
  uint64_t sequence_ = 1;
};

template <typename Machine>
void Follow(const std::string& machine) {
  int followed = 0;
  for (const Line& line : ReadTable()) {
    if (line.machine != machine) continue;
    if (line.effects.count("illegal") != 0) continue;
    Machine subject;
    ASSERT_TRUE(subject.Reach(line.state))
        << "a state that this test cannot bring about: " << line.name();
    Compare(line, subject.Watch(line.event));
    ++followed;
  }
  EXPECT_GT(followed, 30);
}

TEST(TransitionsTest, ACallOfAClientDoesWhatTheTableSays) { Follow<ClientMachine>("client"); }

TEST(TransitionsTest, ARequestAtAnExecutorDoesWhatTheTableSays) {
  Follow<ExecutorMachine>("executor");
}

// A state of Call that the table does not know would be missing from the model, too.
TEST(TransitionsTest, EveryStateOfACallIsInTheTable) {
  std::set<std::string> states;
  for (const Line& line : ReadTable()) {
    if (line.machine == "client") states.insert(line.state);
  }
  EXPECT_EQ(states, (std::set<std::string>{"free", "outstanding", "timed_out", "abandoned", "kept",
                                           "adrift", "done", "done_late"}));
}

}  // namespace
}  // namespace invoker
