// What arrives as bytes is decoded to what encodes to the same bytes, and to nothing that points
// outside a window: immediates, headers, bulk descriptors, requests to a data store, messages on
// the receive ring, and the geometry of windows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/status/statusor.h"
#include "src/invoke/wire/store_request.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/base/ring_message.h"
#include "src/transport/fabric/remote_window.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"

namespace invoker::fuzz {
namespace {

void CheckImmediate(Input* input) {
  const uint32_t token = input->Take<uint32_t>();
  const std::optional<Immediate> immediate = Immediate::Decode(token);
  FUZZ_CHECK(immediate.has_value() == (token >> 30 != 3));
  if (!immediate.has_value()) return;
  FUZZ_CHECK(immediate->Encode() == token);
  FUZZ_CHECK(immediate->cell < kMaxCells);
}

void CheckGeometry(Input* input) {
  // Powers of two are rare among numbers.
  const uint64_t bytes =
      input->TakeBool() ? uint64_t{1} << (input->Take<uint8_t>() % 64) : input->Take<uint64_t>();
  const absl::StatusOr<WindowGeometry> geometry = WindowGeometry::Make(bytes);
  const bool power = bytes != 0 && (bytes & (bytes - 1)) == 0;
  FUZZ_CHECK(geometry.ok() == (power && bytes >= kMinWindowBytes && bytes <= kMaxWindowBytes));
  if (!geometry.ok()) return;
  FUZZ_CHECK(geometry->cells() >= 64 && geometry->cells() <= kMaxCells);
  FUZZ_CHECK(uint64_t{geometry->cells()} * geometry->cell_bytes() == bytes);
  const uint32_t cell = input->Take<uint32_t>();
  const uint64_t length = input->TakeBool() ? input->Take<uint64_t>() : input->Take<uint32_t>();
  // In numbers that cannot overflow.
  const unsigned __int128 end =
      static_cast<unsigned __int128>(cell) * geometry->cell_bytes() + length;
  FUZZ_CHECK(geometry->Fits(cell, length) == (end <= bytes));
  const uint32_t cells = geometry->CellsFor(length);
  FUZZ_CHECK((cells <= geometry->cells()) == (length <= bytes));
  if (length <= bytes) {
    FUZZ_CHECK(uint64_t{cells} * geometry->cell_bytes() >= length);
    FUZZ_CHECK(cells == 0 || uint64_t{cells - 1} * geometry->cell_bytes() < length);
  }
  // A message that fits has all its cells in the window.
  if (geometry->Fits(cell, length)) FUZZ_CHECK(cell + cells <= geometry->cells());
}

HeaderSnapshot TakeHeader(Input* input) {
  std::byte bytes[kHeaderBytes] = {};
  input->TakeBytes(bytes, sizeof(bytes));
  return HeaderSnapshot::Take(bytes);
}

void CheckRequest(Input* input) {
  const HeaderSnapshot snapshot = TakeHeader(input);
  RequestHeader header;
  header.sequence = 0x5a5a;
  if (DecodeRequest(snapshot, &header) != WireError::kNone) {
    FUZZ_CHECK(header.sequence == 0x5a5a);
    return;
  }
  FUZZ_CHECK(header.kind == MessageKind::kRequest || header.kind == MessageKind::kProbe);
  FUZZ_CHECK((header.flags & ~kKnownRequestFlags) == 0);
  std::byte again[kHeaderBytes];
  Pack(header).CopyTo(again);
  FUZZ_CHECK(memcmp(again, snapshot.data(), sizeof(again)) == 0);
}

void CheckResponse(Input* input) {
  HeaderSnapshot snapshot = TakeHeader(input);
  ResponseHeader header;
  const HeaderSnapshot elsewhere = snapshot;
  if (const auto cell = Relocation::Undo(&snapshot); cell.has_value()) {
    FUZZ_CHECK(DecodeResponse(elsewhere, &header) != WireError::kNone);
    FUZZ_CHECK(Relocation::Mark(snapshot, *cell).words == elsewhere.words);
  }
  header.sequence = 0x5a5a;
  if (DecodeResponse(snapshot, &header) != WireError::kNone) {
    FUZZ_CHECK(header.sequence == 0x5a5a);
    return;
  }
  FUZZ_CHECK((header.flags & ~kKnownResponseFlags) == 0);
  FUZZ_CHECK(static_cast<uint16_t>(header.status) < kStatusCodes);
  FUZZ_CHECK(StatusCodeName(header.status) != "undefined");
  FUZZ_CHECK(ToStatus(header.status, header.detail, input->Rest()).ok() ==
             (header.status == StatusCode::kOk));
  std::byte again[kHeaderBytes];
  Pack(header).CopyTo(again);
  FUZZ_CHECK(memcmp(again, snapshot.data(), sizeof(again)) == 0);
}

void CheckBulk(Input* input) {
  std::byte bytes[kBulkDescriptorBytes] = {};
  input->TakeBytes(bytes, sizeof(bytes));
  BulkDescriptor descriptor;
  if (!DecodeBulkDescriptor(bytes, &descriptor)) return;
  if (descriptor.input_window == 0) {
    FUZZ_CHECK(descriptor.input_offset == 0 && descriptor.input_length == 0);
  }
  if (descriptor.output_window == 0) {
    FUZZ_CHECK(descriptor.output_offset == 0 && descriptor.output_capacity == 0);
  }
  std::byte again[kBulkDescriptorBytes];
  EncodeBulkDescriptor(descriptor, again);
  FUZZ_CHECK(memcmp(again, bytes, sizeof(again)) == 0);
  // What a worker asks of a window before it reads or writes there.
  const transport::RemoteWindow window = {0, 0, input->Take<uint64_t>(), 0, 0};
  const unsigned __int128 end =
      static_cast<unsigned __int128>(descriptor.input_offset) + descriptor.input_length;
  FUZZ_CHECK(window.Contains(descriptor.input_offset, descriptor.input_length) ==
             (end <= window.length));
}

void CheckPut(Input* input) {
  std::byte bytes[120] = {};
  const size_t size = input->TakeBytes(bytes, sizeof(bytes));
  PutRequest put;
  if (!DecodePut({bytes, size}, &put)) return;
  FUZZ_CHECK(PutHeadBytes(put.type) + put.value.size() == size);
  FUZZ_CHECK(put.value.empty() || put.value.data() + put.value.size() == bytes + size);
  std::byte again[sizeof(bytes)];
  EncodePutHead(put.id, put.type, again);
  // All but what fills the type up.
  FUZZ_CHECK(memcmp(again, bytes, sizeof(DataId) + sizeof(uint64_t) + put.type.size()) == 0);
}

void CheckRing(Input* input) {
  std::byte bytes[96] = {};
  const size_t size = input->TakeBytes(bytes, input->Take<uint8_t>() % sizeof(bytes));
  transport::RingHeader header;
  if (!transport::DecodeRingHeader({bytes, size}, &header)) return;
  FUZZ_CHECK(size >= transport::kRingHeaderBytes);
  std::byte again[transport::kAddMessageBytes];
  if (header.type == transport::RingMessageType::kAdd) {
    FUZZ_CHECK(size == transport::kAddMessageBytes);
    uint64_t value;
    memcpy(&value, bytes + transport::kRingHeaderBytes, sizeof(value));
    transport::EncodeAdd(header.key, header.offset, value, again);
    FUZZ_CHECK(memcmp(again, bytes, size) == 0);
  } else if (header.type == transport::RingMessageType::kCheck) {
    FUZZ_CHECK(size == transport::kRingHeaderBytes);
    transport::EncodeCheck(header.key, again);
    FUZZ_CHECK(memcmp(again, bytes, size) == 0);
  } else {
    transport::EncodeRingHeader(header, again);
    FUZZ_CHECK(memcmp(again, bytes, transport::kRingHeaderBytes) == 0);
  }
}

}  // namespace
}  // namespace invoker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace invoker::fuzz;
  Input input(data, size);
  switch (input.Take<uint8_t>() % 7) {
    case 0:
      CheckImmediate(&input);
      break;
    case 1:
      CheckGeometry(&input);
      break;
    case 2:
      CheckRequest(&input);
      break;
    case 3:
      CheckResponse(&input);
      break;
    case 4:
      CheckBulk(&input);
      break;
    case 5:
      CheckRing(&input);
      break;
    case 6:
      CheckPut(&input);
      break;
  }
  return 0;
}
