#include "tests/efa_device/faults.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace efa_device {
namespace {

const char* const kNames[kFaultKinds] = {"reorder",        "delay",       "rnr",
                                         "bad_key",        "bad_address", "dead_peer",
                                         "address_handle", "send_full",   "receive_full"};

uint64_t Mix(uint64_t a, uint64_t b) {
  // One round of SplitMix64.
  uint64_t x = a + 0x9e3779b97f4a7c15 * (b + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool ParseNumber(const std::string& text, uint64_t* number) {
  char* end = nullptr;
  *number = strtoull(text.c_str(), &end, 10);
  return !text.empty() && text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

}  // namespace

std::unique_ptr<Faults> Faults::Parse(const std::string& text, std::string* error) {
  std::unique_ptr<Faults> faults(new Faults);
  std::istringstream list(text);
  std::string item;
  while (std::getline(list, item, ',')) {
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    std::string budget;
    const size_t slash = value.find('/');
    if (slash != std::string::npos) {
      budget = value.substr(slash + 1);
      value.resize(slash);
    }
    uint64_t number;
    uint64_t times = INT64_MAX;
    if (!ParseNumber(value, &number) ||
        (slash != std::string::npos && !ParseNumber(budget, &times))) {
      *error = "no number in \"" + item + "\"";
      return nullptr;
    }
    size_t kind = 0;
    while (kind < kFaultKinds && name != kNames[kind]) ++kind;
    if (kind < kFaultKinds && number <= 1000) {
      faults->rules_[kind].rate = number;
      faults->rules_[kind].budget = static_cast<int64_t>(times);
    } else if (name == "seed") {
      faults->seed_ = number;
    } else if (name == "delay_us") {
      faults->delay_ = std::chrono::microseconds(number);
    } else if (name == "log") {
      faults->log_ = number != 0;
    } else {
      *error = kind < kFaultKinds ? "a rate above 1000 in \"" + item + "\""
                                  : "no fault \"" + name + "\"";
      return nullptr;
    }
  }
  return faults;
}

bool Faults::Stream::Strikes(Fault fault) {
  const size_t kind = static_cast<size_t>(fault);
  Rule& rule = faults_->rules_[kind];
  const uint64_t occasion = ++occasions_[kind];
  if (rule.rate == 0 || Draw(fault, 1000) >= rule.rate) return false;
  if (rule.budget.fetch_sub(1) <= 0) {
    rule.budget = 0;
    return false;
  }
  if (faults_->log_) {
    fprintf(stderr, "efa_device: fault %s, stream %016llx, occasion %llu\n", kNames[kind],
            static_cast<unsigned long long>(number_), static_cast<unsigned long long>(occasion));
  }
  return true;
}

uint64_t Faults::Stream::Draw(Fault fault, uint64_t bound) const {
  const size_t kind = static_cast<size_t>(fault);
  // Another bound gives another number: it must not follow from the decision.
  return Mix(Mix(Mix(faults_->seed_, number_), occasions_[kind] * kFaultKinds + kind), bound) %
         bound;
}

Faults::Stream Faults::Stream::Part(uint64_t part) const {
  return Stream(faults_, Mix(number_, part));
}

}  // namespace efa_device
