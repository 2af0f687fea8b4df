// victim SERVER PROVIDER: an honest client. It calls without a pause and checks every byte of every
// response; it tells on standard output what an attacker may know of its session, and then, for
// each line on standard input, one line of JSON:
//
//   stat         how it has fared so far, while it goes on
//   park N       it makes one call that takes long, tells its sequence and cells, and how it ended,
//                after N seconds at the latest
//   large/small  payloads of up to a megabyte and a half from now on, or of a few bytes
//   quiet/busy   it stops calling, and looks at what has come meanwhile, or goes on
//
// It ends with its standard input, or by SIGTERM.

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "tests/hostile/raw_session.h"

namespace invoker::hostile {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(20);
constexpr size_t kSmall = 250;
constexpr size_t kLarge = 1'500'000;

nlohmann::json Window(const bootstrap::WindowDescriptor& window) {
  return {{"base", window.base}, {"length", window.length}, {"key", window.key}};
}

// The tags' keys are not among it.
nlohmann::json Facts(const RawSession& session) {
  const bootstrap::OpenSessionRequest& request = session.request();
  const bootstrap::OpenSessionReply& reply = session.reply();
  return {{"endpoint", absl::BytesToHexString(request.endpoint_address)},
          {"response_window", Window(request.response_window)},
          {"response_session", request.response_session},
          {"request_window", Window(reply.request_window)},
          {"request_session", reply.request_session},
          {"epoch", reply.epoch},
          {"first_sequence", request.first_sequence}};
}

class Victim {
 public:
  explicit Victim(std::unique_ptr<RawSession> session)
      : session_(std::move(session)),
        echo_(session_->FunctionId("echo")),
        slow_echo_(session_->FunctionId("slow_echo")) {}

  void Serve() {
    std::cout << Facts(*session_) << std::endl;
    while (!RawSession::interrupted) {
      if (busy_) CallOnce();
      pollfd input = {STDIN_FILENO, POLLIN, 0};
      if (poll(&input, 1, busy_ ? 0 : 1) <= 0) {
        if (!busy_) session_->Poll();
        continue;
      }
      std::string line;
      if (!std::getline(std::cin, line)) return;
      Obey(line);
    }
  }

 private:
  std::string Random(size_t bytes) {
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }

  // A part of what is drawn once, so that most of its time goes into calls. No two begin alike.
  std::string Large() {
    if (drawn_.empty()) drawn_ = Random(2 * kLarge);
    std::string text = drawn_.substr(random_() % kLarge, 1 + random_() % kLarge);
    const uint64_t first = random_();
    memcpy(text.data(), &first, std::min(sizeof(first), text.size()));
    return text;
  }

  bool Judge(const absl::StatusOr<std::string>& response, const std::string& wanted) {
    ++calls_;
    if (!response.ok()) {
      ++failed_;
      last_failure_ = std::string(response.status().message());
    } else if (*response != wanted) {
      ++wrong_;
    }
    return response.ok() && *response == wanted;
  }

  void CallOnce() {
    const std::string input = large_ ? Large() : Random(1 + random_() % kSmall);
    Judge(session_->Run(echo_, input, kTimeout), input);
  }

  void Park(absl::Duration timeout) {
    const std::string input = Random(kSmall);
    Call* call = session_->Start(slow_echo_, input, timeout);
    if (call == nullptr) return;
    session_->Poll();
    std::cout << nlohmann::json{{"sequence", call->sequence},
                                {"request_cell", call->request.first},
                                {"response_cell", call->response.first},
                                {"capacity", call->response_capacity}}
              << std::endl;
    const bool right = Judge(session_->Await(call), input);
    std::cout << nlohmann::json{{"right", right}} << std::endl;
  }

  // What has been sent to it by now, of which there may be thousands.
  void LookAtTheRest() {
    constexpr int kUnchanged = 1000;
    uint64_t last = TotalDrops(session_->session().dropped());
    for (int unchanged = 0; unchanged < kUnchanged; ++unchanged) {
      session_->Poll();
      const uint64_t now = TotalDrops(session_->session().dropped());
      if (now != last) unchanged = 0;
      last = now;
    }
  }

  void Obey(const std::string& line) {
    int seconds = 0;
    absl::string_view words = line;
    if (absl::ConsumePrefix(&words, "park ") && absl::SimpleAtoi(words, &seconds)) {
      return Park(absl::Seconds(seconds));
    }
    if (line == "large" || line == "small") large_ = line == "large";
    if (line == "quiet" || line == "busy") busy_ = line == "busy";
    if (line == "quiet") LookAtTheRest();
    nlohmann::json dropped;
    ForEachDrop(session_->session().dropped(),
                [&dropped](absl::string_view reason, uint64_t count) {
                  dropped[std::string(reason)] = count;
                });
    std::cout << nlohmann::json{{"calls", calls_},
                                {"failed", failed_},
                                {"wrong", wrong_},
                                {"last_failure", last_failure_},
                                {"dropped", dropped}}
              << std::endl;
  }

  const std::unique_ptr<RawSession> session_;
  const uint16_t echo_;
  const uint16_t slow_echo_;
  std::mt19937_64 random_{20};
  std::string drawn_;
  bool busy_ = true;
  bool large_ = false;
  uint64_t calls_ = 0;
  uint64_t failed_ = 0;
  uint64_t wrong_ = 0;
  std::string last_failure_;
};

}  // namespace
}  // namespace invoker::hostile

int main(int argc, char** argv) {
  // Ends in the regular way, so that nothing is left of it.
  signal(SIGTERM, [](int) { invoker::hostile::RawSession::interrupted = true; });
  if (argc != 3) {
    std::fprintf(stderr, "usage: victim SERVER PROVIDER\n");
    return 2;
  }
  auto session = invoker::hostile::RawSession::Open(argv[1], argv[2]);
  if (!session.ok()) {
    std::fprintf(stderr, "victim: %s\n", session.status().ToString().c_str());
    return 1;
  }
  invoker::hostile::Victim(*std::move(session)).Serve();
  return 0;
}
