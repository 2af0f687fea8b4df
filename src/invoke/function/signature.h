// The signature of a typed function: what its arguments and its result are, in both languages.
//
//   (f64[:, :], {id: i32, at: f64[3]}[:], optional[str]) -> (f64[:], protobuf[shop.Receipt])
//
// docs/reference/typed_calls.md has the grammar, and invoker/values.h the types of C++ by these
// names. A text may come from anybody: Parse takes any bytes.

#ifndef INVOKER_SRC_INVOKE_FUNCTION_SIGNATURE_H_
#define INVOKER_SRC_INVOKE_FUNCTION_SIGNATURE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker {

// One type. A value, and a tree where types have parts.
struct ValueType {
  enum class Kind {
    kNone,      // no value at all: a result only
    kNumber,    // bool, i8 to i64, u8 to u64, f16 to f64, c64, c128
    kStruct,    // numbers with names
    kText,      // str
    kBytes,     // bytes
    kArray,     // numbers or structs, in one dimension or more
    kList,      // values of one type
    kOptional,  // a value or none
    kTuple,     // values
    kMessage,   // protobuf[full.name]
  };

  Kind kind = Kind::kNone;
  std::string name;              // a number's; a message's full name
  uint32_t size = 0;             // bytes of a number, or of a struct with what fills it up
  uint32_t alignment = 0;        // the same
  uint32_t dimensions = 0;       // an array's
  std::vector<ValueType> parts;  // fields of a struct; elements' type; values of a tuple

  // A field of a struct.
  std::string field;
  uint32_t offset = 0;
  uint32_t extent = 0;  // 0: one number; else so many behind each other

  // Its name in the canonical signature.
  std::string ToString() const;
};

struct Signature {
  std::vector<ValueType> parameters;
  ValueType result;

  // Longer ones are refused.
  static constexpr size_t kMostBytes = 1024;

  // INVALID_ARGUMENT says what is wrong, and where. Blanks are free between words.
  static absl::StatusOr<Signature> Parse(absl::string_view text);

  // The canonical text: equal if and only if the signatures are.
  std::string ToString() const;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FUNCTION_SIGNATURE_H_
