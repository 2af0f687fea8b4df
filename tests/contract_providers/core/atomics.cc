// Atomic operations on the target's memory.

#include <rdma/fi_atomic.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "tests/contract_providers/core/endpoint.h"

namespace contract {
namespace {

// Two domains of one process may serve the same memory.
std::mutex atomics_lock;

template <typename T>
bool Known(AtomicKind kind, enum fi_op op) {
  constexpr bool integer = std::is_integral_v<T>;
  if (kind == AtomicKind::kCompare) {
    return op == FI_CSWAP || op == FI_CSWAP_NE || op == FI_CSWAP_LE || op == FI_CSWAP_LT ||
           op == FI_CSWAP_GE || op == FI_CSWAP_GT || (integer && op == FI_MSWAP);
  }
  switch (op) {
    case FI_MIN:
    case FI_MAX:
    case FI_SUM:
    case FI_PROD:
    case FI_LOR:
    case FI_LAND:
    case FI_LXOR:
    case FI_ATOMIC_WRITE:
      return true;
    case FI_BOR:
    case FI_BAND:
    case FI_BXOR:
      return integer;
    case FI_ATOMIC_READ:
      return kind == AtomicKind::kFetch;
    default:
      return false;
  }
}

// What is there afterwards.
template <typename T>
T Next(enum fi_op op, T now, T operand, T comparand) {
  if constexpr (std::is_integral_v<T>) {
    // Wraps around, as memory does.
    using U = std::make_unsigned_t<T>;
    switch (op) {
      case FI_SUM:
        return static_cast<T>(static_cast<U>(now) + static_cast<U>(operand));
      case FI_PROD:
        return static_cast<T>(uint64_t{static_cast<U>(now)} * static_cast<U>(operand));
      case FI_BOR:
        return now | operand;
      case FI_BAND:
        return now & operand;
      case FI_BXOR:
        return now ^ operand;
      case FI_MSWAP:
        return (operand & comparand) | (now & ~comparand);
      default:
        break;
    }
  }
  switch (op) {
    case FI_MIN:
      return std::min(now, operand);
    case FI_MAX:
      return std::max(now, operand);
    case FI_SUM:
      return now + operand;
    case FI_PROD:
      return now * operand;
    case FI_LOR:
      return static_cast<T>(now != T{} || operand != T{});
    case FI_LAND:
      return static_cast<T>(now != T{} && operand != T{});
    case FI_LXOR:
      return static_cast<T>((now != T{}) != (operand != T{}));
    case FI_ATOMIC_WRITE:
      return operand;
    case FI_CSWAP:
      return comparand == now ? operand : now;
    case FI_CSWAP_NE:
      return comparand != now ? operand : now;
    case FI_CSWAP_LE:
      return comparand <= now ? operand : now;
    case FI_CSWAP_LT:
      return comparand < now ? operand : now;
    case FI_CSWAP_GE:
      return comparand >= now ? operand : now;
    case FI_CSWAP_GT:
      return comparand > now ? operand : now;
    default:
      return now;
  }
}

template <typename T>
void Apply(enum fi_op op, uint64_t count, const uint8_t* operand, const uint8_t* comparand,
           bool compares, uint8_t* target, uint8_t* previous) {
  for (uint64_t i = 0; i < count; ++i) {
    T now;
    T value = {};
    T compared = {};
    uint8_t* where = target + i * sizeof(T);
    const bool aligned = reinterpret_cast<uintptr_t>(where) % sizeof(T) == 0;
    // A reader in the target's own program loads the counter atomically, or not at all.
    if (aligned) {
      __atomic_load(reinterpret_cast<T*>(where), &now, __ATOMIC_ACQUIRE);
    } else {
      memcpy(&now, where, sizeof(T));
    }
    memcpy(previous + i * sizeof(T), &now, sizeof(T));
    if (op == FI_ATOMIC_READ) continue;
    memcpy(&value, operand + i * sizeof(T), sizeof(T));
    if (compares) memcpy(&compared, comparand + i * sizeof(T), sizeof(T));
    T next = Next(op, now, value, compared);
    if (aligned) {
      __atomic_store(reinterpret_cast<T*>(where), &next, __ATOMIC_RELEASE);
    } else {
      memcpy(where, &next, sizeof(T));
    }
  }
}

// Calls visit(a value of the datatype's type). False if the datatype is not known.
template <typename Visit>
bool WithType(enum fi_datatype datatype, Visit visit) {
  switch (datatype) {
    case FI_INT8:
      visit(int8_t{});
      return true;
    case FI_UINT8:
      visit(uint8_t{});
      return true;
    case FI_INT16:
      visit(int16_t{});
      return true;
    case FI_UINT16:
      visit(uint16_t{});
      return true;
    case FI_INT32:
      visit(int32_t{});
      return true;
    case FI_UINT32:
      visit(uint32_t{});
      return true;
    case FI_INT64:
      visit(int64_t{});
      return true;
    case FI_UINT64:
      visit(uint64_t{});
      return true;
    case FI_FLOAT:
      visit(float{});
      return true;
    case FI_DOUBLE:
      visit(double{});
      return true;
    default:
      return false;
  }
}

}  // namespace

size_t AtomicSize(enum fi_datatype datatype) {
  size_t size = 0;
  WithType(datatype, [&size](auto value) { size = sizeof(value); });
  return size;
}

bool AtomicKnown(AtomicKind kind, enum fi_datatype datatype, enum fi_op op) {
  bool known = false;
  WithType(datatype, [&](auto value) { known = Known<decltype(value)>(kind, op); });
  return known;
}

void ApplyAtomic(AtomicKind kind, enum fi_datatype datatype, enum fi_op op, uint64_t count,
                 const uint8_t* operand, const uint8_t* comparand, uint8_t* target,
                 uint8_t* previous) {
  std::lock_guard<std::mutex> lock(atomics_lock);
  WithType(datatype, [&](auto value) {
    Apply<decltype(value)>(op, count, operand, comparand, kind == AtomicKind::kCompare, target,
                           previous);
  });
}

}  // namespace contract
