#include "src/invoke/executor/executor_endpoint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

constexpr uint32_t kSessionNumbers = 1u << 16;

// About a millisecond: whoever reads meters does not have to wait for later turns after a function
// that took so long.
constexpr uint64_t kLongTicks = 1u << 21;

// So many times is the queue read for newcomers before those who wait are served: peers that ring
// without end must not keep them waiting.
constexpr int kMostReads = 32;

// After so long, the provider is let work so often before the next turn. It may take several times
// to bring what is there.
constexpr int kLooksAfterLong = 16;

}  // namespace

void ExecutorCounters::Add(const ExecutorCounters& other) {
  executed += other.executed;
  refused += other.refused;
  LoadShared(other.dropped, &dropped);
  live_sessions += other.live_sessions;
  peers += other.peers;
  peers_kept += other.peers_kept;
  regions += other.regions;
  quarantined_bytes += other.quarantined_bytes;
  quarantined_ranges += other.quarantined_ranges;
  function_ns += other.function_ns;
  polling_ns += other.polling_ns;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
}

ExecutorEndpoint::ExecutorEndpoint(uint16_t fabric, transport::FabricChoice choice,
                                   ExecutorShared* shared, uint16_t first_number,
                                   const transport::ReactorOptions& options)
    : fabric_(fabric),
      choice_(std::move(choice)),
      shared_(shared),
      options_(options),
      next_number_(first_number) {}

ExecutorEndpoint::~ExecutorEndpoint() { transport::Reactor::Dispose(std::move(reactor_), quiet_); }

absl::Status ExecutorEndpoint::Open() {
  if (open()) return absl::OkStatus();
  absl::MutexLock lock(&open_mutex_);
  if (open()) return absl::OkStatus();
  absl::StatusOr<transport::FabricChoice> choice = transport::CopyOf(choice_);
  if (!choice.ok()) return choice.status();
  absl::StatusOr<std::unique_ptr<transport::Reactor>> reactor =
      transport::Reactor::Open(*std::move(choice), options_, shared_->quarantine_total);
  if (!reactor.ok()) return reactor.status();
  sessions_.resize(kSessionNumbers);
  (*reactor)->set_handler(this);
  reactor_ = *std::move(reactor);
  open_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status ExecutorEndpoint::TakesSessions() {
  const absl::Status& health = reactor_->health();
  const transport::Quarantine& quarantine = reactor_->quarantine();
  if (!health.ok() || quarantine.full()) healthy_.store(false, std::memory_order_relaxed);
  return health.ok() ? quarantine.HasRoom() : health;
}

void ExecutorEndpoint::GiveUp(const absl::Status& reason) {
  reactor_->GiveUp(reason);
  healthy_.store(false, std::memory_order_relaxed);
}

bool ExecutorEndpoint::worth_replacing() const {
  const transport::Quarantine& quarantine = reactor_->quarantine();
  // Another one has no room either before this one has been closed.
  if (quarantine.total_full()) return !profile().close_needs_quiet && quarantine.bytes() > 0;
  return !reactor_->health().ok() || quarantine.bytes() > 0;
}

void ExecutorEndpoint::PutAway() {
  CountStrayMessages();
  quiet_ = false;
}

bool ExecutorEndpoint::settled() const {
  if (reactor_->abandoned()) return numbers_.empty();
  return numbers_.empty() && reactor_->operations().outstanding() == 0 &&
         !reactor_->has_retired() && reactor_->peers().quarantined() == 0 &&
         !reactor_->awaits_check();
}

// A doorbell of no open session, or of a message without its header.
void ExecutorEndpoint::TakeRareToken(uint64_t token) {
  const auto low = static_cast<uint32_t>(token);
  const auto upper = static_cast<uint32_t>(token >> 32);
  const Immediate immediate = Immediate::Split(low);
  ExecutorSession* session = nullptr;
  if (upper != 0 &&
      (immediate.kind == MessageKind::kRequest || immediate.kind == MessageKind::kProbe)) {
    session = sessions_[immediate.session].get();
  }
  if (session == nullptr) {
    CountShared(&DropCounters::unknown_session, 1, &shared_->watch->dropped());
    return;
  }
  const bool means_nothing = profile().immediate_bytes < sizeof(token);
  if (means_nothing || session->RestoreSequence(immediate.cell, upper)) OnToken(low);
}

void ExecutorEndpoint::OnToken(uint64_t token) {
  Immediate immediate = Immediate::Split(static_cast<uint32_t>(token));
  // With an upper half it is of neither kind.
  const uint64_t kind = token >> 30;
  immediate.kind = static_cast<MessageKind>(kind);
  ExecutorSession* session = nullptr;
  if (kind == static_cast<uint64_t>(MessageKind::kRequest) ||
      kind == static_cast<uint64_t>(MessageKind::kProbe)) {
    session = sessions_[immediate.session].get();
  }
  if (ABSL_PREDICT_FALSE(session == nullptr)) return TakeRareToken(token);
  if (!turn_began_) {
    turn_began_ = true;
    // A doorbell that came alone has waited for nobody, so that its session need not be told when.
    turn_began_ns_ = reactor_->entries_left() > 0 ? transport::MonotonicNs() : 0;
    shared_->busy.store(true, std::memory_order_relaxed);
  }
  const bool alone = turn_began_ns_ == 0 && ring_.empty();
  if (ABSL_PREDICT_FALSE(!alone) && KeepForLater(session, immediate.kind, immediate.cell)) return;
  Gather(session, immediate.session);
  session->OnDoorbell(immediate.kind, immediate.cell, turn_began_ns_);
}

// Whether a doorbell that did not come alone is to wait. One session alone holds nobody up, as long
// as the queue is read again after its quantum.
bool ExecutorEndpoint::MustWait(const ExecutorSession& session) const {
  if (!ring_.empty()) return true;
  if (numbers_.size() > 1) return reactor_->entries_left() > 0;
  return gathering_ == &session && session.quantum_left() <= 0;
}

bool ExecutorEndpoint::KeepForLater(ExecutorSession* session, MessageKind kind, uint32_t cell) {
  if (!MustWait(*session)) return false;
  const int64_t arrived_ns = turn_began_ns_ != 0 ? turn_began_ns_ : transport::MonotonicNs();
  session->Wait(kind, cell, arrived_ns);
  return true;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ExecutorEndpoint::Gather(ExecutorSession* session,
                                                                  uint16_t number) {
  if (gathering_ == session) return;
  // What another session has ready does not wait for this one's functions.
  if (gathering_ != nullptr) FlushGathering();
  gathering_ = session;
  gathering_number_ = number;
  gathering_began_ticks_ = ReadTicks();
  session->BeginQuantum();
}

// Serves those who wait, each for a quantum at most, until a quantum's worth has run: then the
// queue is read again, so that whoever has come meanwhile waits for those before it and no more.
// `events` came in this turn's first read. Returns the turn's events.
int ExecutorEndpoint::ServeRing(int events) {
  for (int reads = 1; events == transport::Reactor::kMostEvents && reads < kMostReads; ++reads) {
    turn_began_ = false;
    events = reactor_->Poll();
  }
  turn_began_ = true;
  shared_->busy.store(true, std::memory_order_relaxed);
  int32_t used = 0;
  while (!ring_.empty() && used < kQuantumCalls) {
    ExecutorSession* session = ring_.TakeFirst();
    Gather(session, session->number());
    used += session->Serve();
  }
  return 1;
}

// What the session has run in this turn has run.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ExecutorEndpoint::EndGathering() {
  const uint64_t ticks = ReadTicks() - gathering_began_ticks_;
  gathering_->usage().AddBusy(ticks);
  if (ABSL_PREDICT_FALSE(!gathering_->usage().unpublished() || ticks >= kLongTicks)) {
    PublishLater(gathering_, gathering_number_, ticks);
  }
}

void ExecutorEndpoint::PublishLater(ExecutorSession* session, uint16_t number, uint64_t ticks) {
  if (!session->usage().unpublished()) {
    session->usage().set_unpublished();
    unpublished_.push_back(number);
  }
  if (ticks < kLongTicks) return;
  Publish();
  // What has come meanwhile is to be there before the next request is looked at: some of them may
  // have been cancelled.
  for (int i = 0; i < kLooksAfterLong; ++i) reactor_->LetProviderWork();
}

void ExecutorEndpoint::Publish() {
  if (unpublished_.empty()) return;
  shared_->scale.Refine(ReadTicks());
  for (const uint16_t number : unpublished_) {
    // It may have ended meanwhile, and its number may be another's: no matter.
    ExecutorSession* session = sessions_[number].get();
    if (session != nullptr) session->usage().Publish(shared_->scale, &shared_->usage);
  }
  unpublished_.clear();
  shared_->watch->usage().Set(shared_->usage);
}

// Posts what the session has ready that was served last. Where there is no slot, another turn does.
void ExecutorEndpoint::FlushGathering() {
  EndGathering();
  const bool flushed = gathering_->Flush();
  gathering_ = nullptr;
  if (ABSL_PREDICT_TRUE(flushed)) return;
  if (std::find(dirty_.begin(), dirty_.end(), gathering_number_) == dirty_.end()) {
    dirty_.push_back(gathering_number_);
  }
}

// Whether any of the unfinished sessions can go on at once.
bool ExecutorEndpoint::FlushDirty() {
  size_t kept = 0;
  bool moving = false;
  for (const uint16_t number : dirty_) {
    ExecutorSession* session = sessions_[number].get();
    if (session == nullptr) continue;
    const uint64_t executed = session->counters().executed;
    const uint64_t began_ticks = ReadTicks();
    const ExecutorSession::Progress progress = session->Continue();
    if (session->counters().executed != executed) {
      const uint64_t ticks = ReadTicks() - began_ticks;
      session->usage().AddBusy(ticks);
      PublishLater(session, number, ticks);
    }
    moving |= progress == ExecutorSession::Progress::kMoving;
    if (progress != ExecutorSession::Progress::kDone) dirty_[kept++] = number;
  }
  dirty_.resize(kept);
  return moving;
}

void ExecutorEndpoint::CountStrayMessages() {
  const uint64_t stray = reactor_->counters().stray_messages;
  if (stray == stray_messages_) return;
  CountShared(&DropCounters::stray_message, stray - stray_messages_, &shared_->watch->dropped());
  stray_messages_ = stray;
}

void ExecutorEndpoint::OnTick(int64_t now_ns) {
  static_cast<void>(now_ns);
  CountStrayMessages();
  const absl::Status& health = reactor_->health();
  if (!health.ok()) {
    healthy_.store(false, std::memory_order_relaxed);
    while (!numbers_.empty()) FailSession(numbers_.back(), health);
  } else if (reactor_->quarantine().full()) {
    healthy_.store(false, std::memory_order_relaxed);
  }
  std::vector<uint16_t> failed;
  failed.swap(failed_);
  for (const uint16_t number : failed) {
    // It may have ended meanwhile, and its number may be another's.
    ExecutorSession* session = sessions_[number].get();
    if (session == nullptr || session->failure().ok()) continue;
    const absl::Status reason = session->failure();
    FailSession(number, reason);
  }
}

void ExecutorEndpoint::FailSession(uint16_t number, const absl::Status& status) {
  const SessionKey key = {number, sessions_[number]->epoch(), fabric_};
  EndSession(number);
  shared_->on_session_failed(key, status);
}

void ExecutorEndpoint::EndSession(uint16_t number) {
  if (gathering_ == sessions_[number].get()) {
    EndGathering();
    gathering_ = nullptr;
  }
  shared_->scale.Refine(ReadTicks());
  sessions_[number]->usage().Publish(shared_->scale, &shared_->usage);
  if (!sessions_[number]->heard() && shared_->on_unheard) shared_->on_unheard();
  const ExecutorSessionCounters& counters = sessions_[number]->counters();
  ended_.executed += counters.executed;
  ended_.refused += counters.refused;
  sessions_[number].reset();
  numbers_.erase(std::find(numbers_.begin(), numbers_.end(), number));
  dirty_.erase(std::remove(dirty_.begin(), dirty_.end(), number), dirty_.end());
  if (numbers_.empty()) shared_->rearrange = true;
  shared_->live_sessions.fetch_sub(1, std::memory_order_relaxed);
  live_sessions_.fetch_sub(1, std::memory_order_relaxed);
}

absl::StatusOr<uint16_t> ExecutorEndpoint::FreeNumber() {
  for (uint32_t tries = 0; tries < kSessionNumbers; ++tries) {
    const uint16_t number = static_cast<uint16_t>(next_number_++);
    if (sessions_[number] == nullptr) return number;
  }
  return absl::ResourceExhaustedError(absl::StrCat("the executor has ", kSessionNumbers,
                                                   " sessions open on provider ",
                                                   profile().provider, ", which is all it can"));
}

ExecutorSession* ExecutorEndpoint::Find(SessionKey key) {
  ExecutorSession* session = sessions_[key.number].get();
  return session != nullptr && session->epoch() == key.epoch ? session : nullptr;
}

absl::StatusOr<bootstrap::OpenSessionReply> ExecutorEndpoint::OpenSession(
    const bootstrap::OpenSessionRequest& request, transport::Notification notification,
    transport::HostBuffer request_window, transport::HostBuffer response_staging,
    const DataKeys& data_keys, std::shared_ptr<UsageMeter> meter) {
  if (absl::Status status = TakesSessions(); !status.ok()) return status;
  absl::StatusOr<uint16_t> number = FreeNumber();
  if (!number.ok()) return number.status();
  ExecutorSession::Parts parts;
  parts.reactor = reactor_.get();
  parts.functions = shared_->functions;
  parts.filter = request.filter;
  parts.watch = shared_->watch;
  parts.draining = &shared_->draining;
  parts.times = &shared_->times;
  parts.dropped = &shared_->watch->dropped();
  parts.meter = std::move(meter);
  parts.bulk_budget = shared_->bulk_budget;
  parts.unfinished = &dirty_;
  parts.ring = &ring_;
  parts.failed = &failed_;
  parts.number = *number;
  parts.epoch = shared_->next_epoch++;
  parts.first_sequence = request.first_sequence;
  parts.notification = notification;
  parts.data_auth = request.data_auth;
  parts.data_keys = data_keys;
  parts.request_window = std::move(request_window);
  parts.response_staging = std::move(response_staging);
  absl::StatusOr<std::unique_ptr<ExecutorSession>> session =
      ExecutorSession::Open(std::move(parts), request);
  if (!session.ok()) return session.status();
  bootstrap::OpenSessionReply reply;
  reply.executor = shared_->index;
  reply.endpoint_address = reactor_->address();
  reply.request_window = (*session)->request_window();
  reply.request_session = *number;
  reply.epoch = (*session)->epoch();
  reply.notification = notification;
  reply.eager_bytes = reactor_->eager_bytes();
  reply.data_auth = request.data_auth;
  reply.data_keys = data_keys;
  sessions_[*number] = *std::move(session);
  if (numbers_.empty()) shared_->rearrange = true;
  numbers_.push_back(*number);
  shared_->live_sessions.fetch_add(1, std::memory_order_relaxed);
  live_sessions_.fetch_add(1, std::memory_order_relaxed);
  return reply;
}

bool ExecutorEndpoint::finishing() const {
  return reactor_->health().ok() &&
         (reactor_->operations().outstanding() > 0 || !dirty_.empty() || !ring_.empty());
}

void ExecutorEndpoint::EndAll() {
  quiet_ = numbers_.empty() && !reactor_->has_retired();
  while (!numbers_.empty()) EndSession(numbers_.back());
}

ExecutorCounters ExecutorEndpoint::Counters() const {
  ExecutorCounters sum = ended_;
  for (uint16_t number : numbers_) {
    const ExecutorSessionCounters& counters = sessions_[number]->counters();
    sum.executed += counters.executed;
    sum.refused += counters.refused;
  }
  sum.live_sessions = numbers_.size();
  if (open()) {
    const transport::PeerTable& peers = reactor_->peers();
    sum.peers = peers.live() + peers.quarantined() + peers.kept();
    sum.peers_kept = peers.kept();
    sum.regions = reactor_->regions().size();
    sum.quarantined_bytes = reactor_->quarantine().bytes();
    sum.quarantined_ranges = reactor_->quarantine().ranges();
  }
  return sum;
}

}  // namespace invoker
