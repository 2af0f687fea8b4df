// The real session code, both halves, under every order of events that bytes can say: calls,
// writes that are placed, announced and completed out of order, refused and failed posts,
// deadlines, callers that give up, buffers, forged and replayed doorbells, junk in the windows,
// ends of the session. SessionWorld holds it against what must be true of calls.

#include <cstdint>
#include <cstring>
#include <string>

#include "src/invoke/wire/wire.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/fabric/network.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/session_world.h"

namespace invoker::fuzz {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;

class Player {
 public:
  // `tagged`: messages have tags, so that one that is there in part is seen to be.
  Player(Input* input, SessionWorld* world, bool hostile, bool tagged)
      : input_(*input),
        world_(*world),
        hostile_(hostile),
        tagged_(tagged),
        began_ns_(transport::MonotonicNs()) {}

  void Play() {
    constexpr int kMostEvents = 400;
    for (int i = 0; i < kMostEvents && input_.left() > 0; ++i) Event();
  }

 private:
  Flight* PickFlight() {
    std::deque<Flight>& flights = Network::Get().flights();
    if (flights.empty()) return nullptr;
    return &flights[input_.Pick(static_cast<uint32_t>(flights.size()))];
  }

  SessionWorld::Sent* PickSent() {
    if (world_.sent().empty()) return nullptr;
    SessionWorld::Sent* sent =
        &world_.sent()[input_.Pick(static_cast<uint32_t>(world_.sent().size()))];
    return sent->call == nullptr ? nullptr : sent;
  }

  uint32_t TakeSize() {
    const uint8_t how = input_.Take<uint8_t>();
    return how < 200 ? how : static_cast<uint32_t>(how - 199) * 73;
  }

  void StartOne(SessionWorld::Buffer* buffer) {
    const uint8_t what = input_.Take<uint8_t>();
    const MessageKind kind = what % 16 == 15 ? MessageKind::kProbe : MessageKind::kRequest;
    const auto function = static_cast<uint16_t>(what % 8 < 5 ? 0 : what % 8 - 4);
    const int64_t deadline_ns = what < 128 ? 0 : began_ns_ + kHourNs * (1 + what % 3);
    const uint32_t bytes = TakeSize();
    world_.Start(kind, function, bytes, TakeSize(), deadline_ns, buffer);
  }

  void Allocate() {
    SessionWorld::Buffer buffer;
    buffer.bytes = TakeSize();
    buffer.cells = world_.client().AllocateRequestCells(buffer.bytes);
    buffer.busy = std::make_unique<bool>(false);
    if (buffer.cells.cells != 0) world_.buffers().push_back(std::move(buffer));
  }

  SessionWorld::Buffer* PickBuffer() {
    if (world_.buffers().empty()) return nullptr;
    return &world_.buffers()[input_.Pick(static_cast<uint32_t>(world_.buffers().size()))];
  }

  // Something that looks like a message of this session, as a peer with the key could write it.
  void WriteJunk(bool to_client) {
    world_.set_hostile();
    std::byte bytes[kHeaderBytes + kBulkDescriptorBytes] = {};
    if (to_client) {
      ResponseHeader header;
      header.flags = input_.Take<uint8_t>() & 7;
      header.status = static_cast<StatusCode>(input_.Pick(kStatusCodes + 1));
      header.payload_bytes = static_cast<uint32_t>(input_.TakeNumber());
      header.sequence = ~uint64_t{0} - 2 + input_.Take<uint8_t>();
      header.epoch = input_.TakeBool() ? 7 : input_.Take<uint8_t>();
      header.detail = input_.Take<uint8_t>();
      Pack(header).CopyTo(bytes);
    } else {
      RequestHeader header;
      header.kind = input_.Pick(4) == 0 ? MessageKind::kProbe : MessageKind::kRequest;
      header.flags = input_.Take<uint8_t>() & 15;
      header.function_id = input_.Pick(5);
      header.payload_bytes = static_cast<uint32_t>(input_.TakeNumber());
      header.sequence = ~uint64_t{0} - 2 + input_.TakeNumber();
      header.epoch = input_.TakeBool() ? 7 : input_.Take<uint8_t>();
      header.response_cell = static_cast<uint16_t>(input_.TakeNumber());
      header.response_capacity = static_cast<uint32_t>(input_.TakeNumber());
      header.deadline_us = input_.TakeBool() ? 0 : input_.Take<uint32_t>();
      Pack(header).CopyTo(bytes);
    }
    input_.TakeBytes(bytes + kHeaderBytes, kBulkDescriptorBytes);
    const uint32_t cell = input_.Pick(64);
    const bootstrap::WindowDescriptor window =
        to_client ? world_.request().response_window : executor_window_;
    Flight flight;
    flight.to = to_client ? world_.client_endpoint() : world_.executor_endpoint();
    const size_t size = std::min<size_t>(sizeof(bytes), 4096 - cell * 64);
    flight.copied.assign(bytes, bytes + size);
    flight.bytes = size;
    flight.address = window.base + cell * 64;
    flight.key = window.key;
    flight.has_data = true;
    flight.data = Immediate{to_client ? MessageKind::kResponse : MessageKind::kRequest,
                            to_client ? SessionWorld::kClientNumber : SessionWorld::kNumber,
                            static_cast<uint16_t>(cell)}
                      .Encode();
    flight.completed = true;
    Network::Get().Post(std::move(flight));
  }

  // The upper half of a doorbell. One with the session's epoch is somebody's who has seen a
  // message.
  uint32_t TakeUpper() {
    switch (input_.Pick(4)) {
      case 0:
        return input_.Take<uint32_t>() & 0x7fffffff;
      case 1: {
        const uint32_t epoch = hostile_ && input_.TakeBool() ? 7 : 8 + input_.Pick(16);
        if (epoch == 7) world_.set_hostile();
        return HeaderRepeat::Of(~uint64_t{0} - 2 + input_.Take<uint8_t>(), epoch).Encode();
      }
      default:
        return 0;
    }
  }

  void Ring(bool to_client) {
    world_.set_forged();
    Immediate immediate;
    immediate.kind = static_cast<MessageKind>(input_.Pick(3));
    immediate.session = to_client ? SessionWorld::kClientNumber : SessionWorld::kNumber;
    if (input_.Pick(8) == 0) immediate.session = input_.Take<uint8_t>();
    immediate.cell = static_cast<uint16_t>(input_.TakeNumber());
    Network::Get().Ring(to_client ? world_.client_endpoint() : world_.executor_endpoint(),
                        uint64_t{TakeUpper()} << 32 | immediate.Encode());
  }

  void RegisterWindow() {
    if (world_.executor() == nullptr) return;
    bootstrap::WindowDescriptor window;
    window.base = input_.TakeNumber();
    window.length = input_.TakeNumber();
    window.key = input_.TakeNumber();
    const bool readable = input_.TakeBool();
    static_cast<void>(world_.executor()->windows()->Register(window, readable, input_.TakeBool()));
  }

  void Event();
  void RareEvent();

  Input& input_;
  SessionWorld& world_;
  const bool hostile_;
  const bool tagged_;
  const int64_t began_ns_;
  int64_t now_ns_ = 0;
  const bootstrap::WindowDescriptor executor_window_ = world_.executor()->request_window();
};

void Player::Event() {
  Network& network = Network::Get();
  switch (input_.Pick(16)) {
    case 0:
      StartOne(nullptr);
      break;
    case 1:
      for (uint32_t i = input_.Pick(12); i > 0; --i) {
        world_.Start(MessageKind::kRequest, 0, 8 + i, 40, 0, nullptr);
      }
      break;
    case 2:
      world_.client().Flush();
      break;
    case 3:
      world_.PollClient();
      break;
    case 4:
      world_.PollExecutor();
      break;
    case 5:
      if (Flight* flight = PickFlight()) network.Place(flight);
      break;
    case 6:
      if (Flight* flight = PickFlight()) network.Announce(flight);
      break;
    case 7:
      if (Flight* flight = PickFlight()) network.Complete(flight);
      break;
    case 8:
    case 9:
      if (Flight* flight = PickFlight()) network.Finish(flight);
      network.Sweep();
      break;
    case 10:
      if (SessionWorld::Sent* sent = PickSent()) {
        if (sent->call->ended()) world_.Finish(sent, input_.TakeBool());
      }
      break;
    case 11:
      if (SessionWorld::Sent* sent = PickSent()) {
        if (input_.TakeBool()) {
          world_.Abandon(sent);
        } else if (sent->call->state == Call::State::kOutstanding) {
          world_.client().EndEarly(sent->call, absl::StatusCode::kCancelled,
                                   "the call was cancelled");
        }
      }
      break;
    case 12:
      now_ns_ = std::max(now_ns_, began_ns_) + kHourNs / 2 * input_.Pick(4);
      world_.Tick(now_ns_);
      break;
    case 13:
      if (SessionWorld::Buffer* buffer = PickBuffer()) {
        if (buffer->cells.cells != 0) StartOne(buffer);
      } else {
        Allocate();
      }
      break;
    case 14:
      network.Ring(0, 0xffffffff);  // a token of no kind
      if (!world_.kept().empty()) {
        world_.client().FreeResponseCells(world_.kept().back());
        world_.kept().pop_back();
      }
      break;
    case 15:
      RareEvent();
      break;
  }
}

void Player::RareEvent() {
  Network& network = Network::Get();
  switch (input_.Pick(14)) {
    case 0:
      network.RefusePosts(input_.Pick(8));
      break;
    case 1:
      // A fabric loses nothing without a word, and what has completed cannot fail any more.
      if (Flight* flight = PickFlight()) {
        if (!flight->completed && flight->from != nullptr) network.Fail(flight);
      }
      break;
    case 2:
      world_.draining = !world_.draining;
      break;
    case 3:
      world_.EndExecutor();
      break;
    case 4:
      world_.client().Fail(absl::UnavailableError("the lease has ended"));
      break;
    case 5:
      Ring(false);
      break;
    case 6:
      Ring(true);
      break;
    case 7:
      Allocate();
      break;
    case 8:
      if (SessionWorld::Buffer* buffer = PickBuffer()) {
        if (buffer->cells.cells == 0) break;
        world_.client().ReleaseBuffer(buffer->cells, buffer->busy.get());
        buffer->cells = {};
      }
      break;
    case 9:
      if (hostile_) WriteJunk(false);
      break;
    case 10:
      if (hostile_) WriteJunk(true);
      break;
    case 11:
      if (hostile_) RegisterWindow();
      break;
    case 12:
      // The first bytes of a write, in the order in which most fabrics place them.
      if (!tagged_) break;
      if (Flight* flight = PickFlight()) {
        world_.set_torn();
        network.PlacePart(*flight, 0, input_.TakeNumber() % 4096);
      }
      break;
    case 13:
      world_.client().set_pieces_up_to(input_.Pick(4) * uint64_t{512});
      break;
  }
}

}  // namespace
}  // namespace invoker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace invoker::fuzz;
  using invoker::DataAuth;
  using invoker::Notification;
  Input input(data, size);
  const uint8_t how = input.Take<uint8_t>();
  const bool imm = (how & 1) == 0;
  const auto data_auth = static_cast<DataAuth>(how / 16 % 3);
  SessionWorld world(imm ? Notification::kWriteImm : Notification::kSendAfterWrite,
                     !imm && (how & 2) != 0, (how & 4) != 0 ? 3 : 16, data_auth,
                     /*in_order=*/imm && (how & 2) != 0);
  Player player(&input, &world, (how & 8) != 0, data_auth != DataAuth::kOff);
  player.Play();
  world.Drain();
  return 0;
}
