// A message that is being put together: small values by copy, arrays by reference.

#ifndef INVOKER_SRC_PYTHON_NATIVE_TYPED_PIECES_H_
#define INVOKER_SRC_PYTHON_NATIVE_TYPED_PIECES_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "invoker/reference.h"
#include "invoker/response.h"

namespace invoker::python {

// Filled and destroyed with the GIL; what reads it needs none. All sizes are padded with zeros to a
// multiple of 8.
class Pieces {
 public:
  void AddWord(uint64_t word) { Copy(&word, sizeof(word)); }

  // Copies the bytes.
  void Add(const void* data, size_t size) {
    Copy(data, size);
    Pad(size);
  }

  // Refers to the bytes, which `owner` keeps in place.
  void AddOf(pybind11::object owner, const void* data, size_t size) {
    if (size <= kWorthReferring) return Add(data, size);
    owners_.push_back(std::move(owner));
    pieces_.push_back({static_cast<const std::byte*>(data), 0, size});
    size_ += size;
    Pad(size);
  }

  // Stands for an array, and is kept for the call.
  void AddReference(const UntypedReference& reference) {
    AddWord(kReferenceMark);
    Add(reference.id().data(), reference.id().size());
    references_.push_back(reference);
  }

  size_t size() const { return size_; }
  const std::vector<UntypedReference>& references() const { return references_; }

  // Writes all of it, size() bytes.
  void WriteTo(void* to) const {
    auto* at = static_cast<std::byte*>(to);
    for (const Piece& piece : pieces_) {
      std::memcpy(at, DataOf(piece), piece.size);
      at += piece.size;
    }
  }

  // All of it, in several places that stay as long as this object does and is not added to.
  std::vector<Bytes> Spans() const {
    std::vector<Bytes> spans;
    for (const Piece& piece : pieces_) spans.emplace_back(DataOf(piece), piece.size);
    return spans;
  }

 private:
  static constexpr size_t kWorthReferring = 256;

  struct Piece {
    const std::byte* data;  // nullptr: in copies_
    size_t offset;
    size_t size;
  };

  const std::byte* DataOf(const Piece& piece) const {
    return piece.data != nullptr ? piece.data : copies_.data() + piece.offset;
  }
  void Copy(const void* data, size_t size) {
    if (size == 0) return;
    if (pieces_.empty() || pieces_.back().data != nullptr) {
      pieces_.push_back({nullptr, copies_.size(), 0});
    }
    const auto* bytes = static_cast<const std::byte*>(data);
    copies_.insert(copies_.end(), bytes, bytes + size);
    pieces_.back().size += size;
    size_ += size;
  }
  void Pad(size_t size) {
    constexpr uint64_t kZeros = 0;
    Copy(&kZeros, (8 - size % 8) % 8);
  }

  absl::InlinedVector<std::byte, 2048> copies_;
  absl::InlinedVector<Piece, 8> pieces_;
  absl::InlinedVector<pybind11::object, 4> owners_;
  std::vector<UntypedReference> references_;
  size_t size_ = 0;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_TYPED_PIECES_H_
