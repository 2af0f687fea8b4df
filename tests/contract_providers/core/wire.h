// The packets that emulated endpoints exchange over the inner provider: one header, and up to
// kPacketPayload bytes. Both ends run this very code on one kind of machine, so the header is the
// struct itself.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_WIRE_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_WIRE_H_

#include <cstddef>
#include <cstdint>

namespace contract {

// The longest endpoint address.
inline constexpr size_t kAddressBytes = 48;

enum class PacketKind : uint8_t {
  kSend = 1,      // a part of a message
  kWrite,         // a part of a write
  kRead,          // a request to read
  kAtomic,        // an atomic with its operands, the comparand behind them
  kAck,           // the answer to any of the above: `status` is a positive fi_errno or 0
  kReadResponse,  // a part of what was read, or an atomic's result
};

enum PacketFlag : uint8_t {
  kImmediate = 1,         // `data` is meant for the target
  kDeliveryComplete = 2,  // acknowledge after placement
  kEarly = 4,             // acknowledge before placement
  kRepeated = 8,          // its number is one that the target has seen (Contract::peers_meet_once)
};

// What fits shm's inject buffers (4096 bytes in libfabric 1.17 and 2.6): longer messages go through
// a segmentation protocol of its own there.
inline constexpr size_t kPacketBytes = 4096;

struct PacketHeader {
  PacketKind kind;
  uint8_t flags;
  uint16_t payload;  // bytes behind the header
  int32_t status;
  uint32_t target_nonce;  // the endpoint's that is meant; another one drops the packet
  uint8_t atomic_kind;
  uint8_t datatype;
  uint8_t atomic_op;
  uint8_t reserved;
  uint64_t operation;  // the initiator's number; counts from 1 on
  uint64_t fate;
  uint64_t total;    // bytes of the whole operation
  uint64_t offset;   // where this payload is in it
  uint64_t address;  // remote
  uint64_t key;
  uint64_t data;
  uint8_t source[kAddressBytes];
};

inline constexpr size_t kPacketPayload = kPacketBytes - sizeof(PacketHeader);

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_WIRE_H_
